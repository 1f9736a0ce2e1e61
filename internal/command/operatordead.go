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

// letterFilter chooses letters. All that is given must fit.
type letterFilter struct {
	Kind   string `help:"Show only this kind: video or chat."`
	Tenant string `help:"Show only this tenant."`
	Code   string `help:"Show only this error code, such as submission_outcome_unknown."`
}

type deadListCommand struct {
	letterFilter `embed:""`
	Limit        int `help:"Maximum dead letters to list; 0 for all." default:"100"`
}

// maxPage is the most that one call gives.
const maxPage = 100

// Run lists letters, page after page.
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
		return call.letters(all)
	})
}

// eachPage asks for pages until there are no more, or limit items are listed; 0 is for all. The
// limit is the flag --limit.
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

// Run shows a letter; its request only where that is asked for.
func (c deadShowCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.GetDeadLetter(ctx, &genbusv1.GetDeadLetterRequest{Sequence: c.Sequence})
		if err != nil {
			return answered(err)
		}
		return call.letter(answer.GetLetter(), c.Body)
	})
}

type deadRedriveCommand struct {
	Sequences []uint64 `arg:"" name:"sequence" help:"Sequences of the dead letters."`
}

// Run redrives letters in turn.
func (c deadRedriveCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		return eachLetter(ctx, c.Sequences, func(seq uint64) error {
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

// Run drops letters in turn.
func (c deadDropCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		return eachLetter(ctx, c.Sequences, func(seq uint64) error {
			answer, err := call.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: seq})
			if err != nil {
				return answered(err)
			}
			return call.say(answer, "dead letter %d removed", seq)
		})
	})
}

// eachLetter goes on with the others where one letter fails, and gives the failures,
// the first of which says how the command ends. Where none of the others can go
// better, because the time is over or the key is refused, it says that they were not
// tried.
func eachLetter(ctx context.Context, sequences []uint64, do func(seq uint64) error) error {
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

// Run attaches an upstream's task.
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

// Run asks the upstream for a letter's task.
func (c lookUpCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.LookUpUpstreamTask(ctx, &genbusv1.LookUpUpstreamTaskRequest{Sequence: c.Sequence})
		if err != nil {
			return answered(err)
		}
		return call.say(answer, "dead letter %d: %s", c.Sequence, task.LookUpText(answer.GetLookUp()))
	})
}
