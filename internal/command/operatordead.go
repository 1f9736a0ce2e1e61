package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

type deadCommand struct {
	List    deadListCommand    `cmd:"" help:"List dead letters of jobs, then of rejected requests, oldest first."`
	Show    deadShowCommand    `cmd:"" help:"Show one dead letter."`
	Redrive deadRedriveCommand `cmd:"" help:"Send the requests of dead letters again, as new jobs. Check the upstream first: it may charge for both."`
	Drop    deadDropCommand    `cmd:"" help:"Permanently remove dead letters and their bodies."`
}

// deadLetterFilter selects dead letters that match all given flags.
type deadLetterFilter struct {
	Kind   string `help:"Show only this kind: video or chat."`
	Tenant string `help:"Show only this tenant."`
	Code   string `help:"Show only this error code, such as submission_outcome_unknown."`
}

type deadListCommand struct {
	deadLetterFilter `embed:""`
	Limit            int `help:"Maximum dead letters to list; 0 for all." default:"100"`
}

// maxPage is the maximum page size of a call.
const maxPage = 100

func (c deadListCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		all := &genbusv1.ListDeadLettersResponse{}
		request := &genbusv1.ListDeadLettersRequest{Kind: c.Kind, Tenant: c.Tenant, Code: c.Code}
		err := eachPage(c.Limit, func(size int32) (listed int, more bool, err error) {
			request.PageSize = size
			page, err := call.ListDeadLetters(ctx, request)
			all.Letters = append(all.GetLetters(), page.GetLetters()...)
			request.PageToken, all.NextPageToken = page.GetNextPageToken(), page.GetNextPageToken()
			return len(all.GetLetters()), request.GetPageToken() != "", err
		})
		if err != nil {
			return err
		}
		return call.deadLetters(all)
	})
}

// eachPage requests pages until none follows or limit items are listed. A limit of 0 lists all
// items, and a negative limit is a usage error.
func eachPage(limit int, ask func(size int32) (listed int, more bool, err error)) error {
	if limit < 0 {
		return WrongUse("--limit: %d is invalid; use 1 or more, or 0 for all", limit)
	}
	for listed := 0; ; {
		size := maxPage
		if limit > 0 {
			size = min(maxPage, limit-listed)
		}
		n, more, err := ask(int32(size))
		if err != nil {
			return answered(err)
		}
		if listed = n; !more || limit > 0 && listed >= limit {
			return nil
		}
	}
}

type deadShowCommand struct {
	Sequence uint64 `arg:"" help:"Sequence of the dead letter."`
	Body     bool   `help:"Also print the request, including the user's prompt."`
}

// Run shows a dead letter. It shows the request only with --body.
func (c deadShowCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.GetDeadLetter(ctx, &genbusv1.GetDeadLetterRequest{Sequence: c.Sequence, WithoutData: !c.Body})
		if err != nil {
			return answered(err)
		}
		return call.deadLetter(answer.GetLetter(), c.Body)
	})
}

type deadRedriveCommand struct {
	Sequences []uint64 `arg:"" name:"sequence" help:"Sequences of the dead letters."`
}

func (c deadRedriveCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		return eachDeadLetter(ctx, c.Sequences, func(seq uint64) error {
			answer, err := call.RedriveDeadLetter(ctx, &genbusv1.RedriveDeadLetterRequest{Sequence: seq})
			if err != nil {
				return answered(err)
			}
			return call.job(answer, seq, answer.GetId(), answer.GetStatus())
		})
	})
}

type deadDropCommand struct {
	Sequences []uint64 `arg:"" name:"sequence" help:"Sequences of the dead letters."`
}

func (c deadDropCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		return eachDeadLetter(ctx, c.Sequences, func(seq uint64) error {
			answer, err := call.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: seq})
			if err != nil {
				return answered(err)
			}
			return call.message(answer, "dead letter %d removed", seq)
		})
	})
}

// eachDeadLetter calls do for each dead letter and continues after failures. It joins the errors,
// and the first error determines the exit code. If the time limit has passed or the key is refused,
// it stops and lists the dead letters that it did not try.
func eachDeadLetter(ctx context.Context, sequences []uint64, do func(seq uint64) error) error {
	var failed []error
	for i, seq := range sequences {
		err := do(seq)
		if err == nil {
			continue
		}
		failed = append(failed, fmt.Errorf("dead letter %d: %w", seq, err))
		if left := sequences[i+1:]; len(left) > 0 && (ctx.Err() != nil || ExitCode(err) == ExitDenied) {
			failed = append(failed, fmt.Errorf("not tried: %s", strings.Trim(fmt.Sprint(left), "[]")))
			break
		}
	}
	return errors.Join(failed...)
}

type attachCommand struct {
	Sequence uint64 `arg:"" help:"Sequence of the dead letter."`
	Task     string `arg:"" optional:"" help:"Upstream task ID. Default: the one in the dead letter, or the one the upstream finds by our ID."`
}

func (c attachCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.AttachUpstreamTask(ctx, &genbusv1.AttachUpstreamTaskRequest{Sequence: c.Sequence, UpstreamTaskId: c.Task})
		if err != nil {
			return answered(err)
		}
		return call.job(answer, c.Sequence, answer.GetId(), answer.GetStatus())
	})
}

type lookUpCommand struct {
	Sequence uint64 `arg:"" help:"Sequence of the dead letter."`
}

func (c lookUpCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.LookUpUpstreamTask(ctx, &genbusv1.LookUpUpstreamTaskRequest{Sequence: c.Sequence})
		if err != nil {
			return answered(err)
		}
		return call.message(answer, "dead letter %d: %s", c.Sequence, task.LookUpText(answer.GetLookUp()))
	})
}
