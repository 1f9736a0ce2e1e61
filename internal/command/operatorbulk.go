package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
)

type bulkCommand struct {
	Cancel  bulkCancelCommand  `cmd:"" help:"Cancel the matching unfinished jobs."`
	Redrive bulkRedriveCommand `cmd:"" help:"Send the requests of matching dead letters again, as new jobs. Upstreams may charge for both."`
	Drop    bulkDropCommand    `cmd:"" help:"Permanently remove the matching dead letters and their bodies."`
	Attach  bulkAttachCommand  `cmd:"" help:"Make new jobs for listed videos that upstreams already have, without submitting them."`
}

// bulkFlags holds the flags that all bulk commands share.
type bulkFlags struct {
	Yes bool `help:"Run the action; without it, only count."`
	// Token is a pointer so that an empty token is an error and does not start a new run.
	Token *string `help:"Continue an earlier count or run by its token, with the same filter; items added later are not touched."`
}

type bulkCancelCommand struct {
	jobFilter `embed:""`
	bulkFlags `embed:""`
	All       bool `help:"All unfinished jobs of all tenants, if no filter is set." name:"all"`
}

func (c bulkCancelCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	filter, err := c.request(time.Now())
	if err != nil {
		return err
	}
	return c.run(ctx, o, out, "job", c.Since != 0 || c.Idle != 0, func(ctx context.Context, call operatorCall, dryRun bool, token string) (bulkStream, error) {
		return call.CancelJobs(ctx, &genbusv1.CancelJobsRequest{Filter: filter, Everything: c.All, DryRun: dryRun, Token: token})
	})
}

// bulkDeadLetters selects the dead letters of a bulk command.
type bulkDeadLetters struct {
	deadLetterFilter `embed:""`
	bulkFlags        `embed:""`
	All              bool `help:"All dead letters of all tenants, if no filter is set." name:"all"`
}

func (c bulkDeadLetters) filter() *genbusv1.DeadLetterFilter {
	return &genbusv1.DeadLetterFilter{Kind: c.Kind, Tenant: c.Tenant, Code: c.Code}
}

type bulkRedriveCommand struct {
	bulkDeadLetters `embed:""`
}

func (c bulkRedriveCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return c.run(ctx, o, out, "dead letter", false, func(ctx context.Context, call operatorCall, dryRun bool, token string) (bulkStream, error) {
		return call.RedriveDeadLetters(ctx, &genbusv1.RedriveDeadLettersRequest{Filter: c.filter(), Everything: c.All, DryRun: dryRun, Token: token})
	})
}

type bulkDropCommand struct {
	bulkDeadLetters `embed:""`
}

func (c bulkDropCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return c.run(ctx, o, out, "dead letter", false, func(ctx context.Context, call operatorCall, dryRun bool, token string) (bulkStream, error) {
		return call.DropDeadLetters(ctx, &genbusv1.DropDeadLettersRequest{Filter: c.filter(), Everything: c.All, DryRun: dryRun, Token: token})
	})
}

type bulkAttachCommand struct {
	bulkFlags `embed:""`
	List      string `arg:"" help:"File with one line per dead letter: its sequence, and the upstream task ID if the dead letter has none. - for standard input."`
}

func (c bulkAttachCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	tasks, err := readTasks(c.List)
	if err != nil {
		return err
	}
	return c.run(ctx, o, out, "dead letter", false, func(ctx context.Context, call operatorCall, dryRun bool, token string) (bulkStream, error) {
		return call.AttachUpstreamTasks(ctx, &genbusv1.AttachUpstreamTasksRequest{Tasks: tasks, DryRun: dryRun, Token: token})
	})
}

// readTasks reads a list of tasks. It skips empty lines.
func readTasks(name string) (tasks []*genbusv1.LetterTask, err error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usageError{err}
		}
		defer func() { _ = f.Close() }() // nothing was written
		in = f
	}
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 {
			continue
		}
		seq, err := strconv.ParseUint(words[0], 10, 64)
		if err != nil || len(words) > 2 {
			return nil, WrongUse("line %d of %s must be a dead letter sequence, optionally followed by an upstream task ID", n, name)
		}
		t := &genbusv1.LetterTask{Sequence: seq}
		if len(words) == 2 {
			t.UpstreamTaskId = words[1]
		}
		tasks = append(tasks, t)
	}
	return tasks, lines.Err()
}

type bulkStream = grpc.ServerStreamingClient[genbusv1.BulkProgress]

type bulkCall func(ctx context.Context, call operatorCall, dryRun bool, token string) (bulkStream, error)

// run counts the matches and, with --yes, runs the action. If moves is set, the filter depends on
// the current time, and the run cannot be continued with a token.
func (c bulkFlags) run(ctx context.Context, o *Operator, out io.Writer, what string, moves bool, begin bulkCall) error {
	p := printer{out: out, json: o.JSON}
	var token string
	switch {
	case c.Token != nil && (*c.Token == "" || !c.Yes):
		return WrongUse("--token needs the token of an earlier count or run, and --yes")
	case c.Token != nil:
		token = *c.Token
	default:
		counted, err := c.count(ctx, o, out, begin)
		if err != nil {
			return err
		}
		if !c.Yes || counted.GetFailed() > 0 {
			return p.counted(counted, what)
		}
		token = counted.GetToken()
	}
	last, err := o.bulk(ctx, p, begin, token)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted")
		}
		switch {
		case last == nil:
		case moves:
			err = fmt.Errorf("%w\nto do the rest, run the command again; with --since or --idle it makes a new count", err)
		default:
			err = fmt.Errorf("%w\nto continue, run the same command with --token %s", err, token)
		}
		return err
	}
	if last.GetFailed() > 0 {
		return exitError{ExitNotPossible, fmt.Errorf("%d stayed as %s", last.GetFailed(), plural.Form(last.GetFailed(), "it is", "they are"))}
	}
	return nil
}

// count performs a dry run.
func (c bulkFlags) count(ctx context.Context, o *Operator, out io.Writer, begin bulkCall) (counted *genbusv1.BulkProgress, err error) {
	err = o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		stream, err := begin(ctx, call, true, "")
		if err == nil {
			counted, err = stream.Recv()
		}
		return answered(err)
	})
	return counted, err
}

// bulk runs an action without a time limit and prints its progress.
func (c *Operator) bulk(ctx context.Context, p printer, begin bulkCall, token string) (last *genbusv1.BulkProgress, err error) {
	err = c.connect(ctx, p.out, func(ctx context.Context, call operatorCall) error {
		stream, err := begin(ctx, call, false, token)
		for err == nil {
			var now *genbusv1.BulkProgress
			if now, err = stream.Recv(); err != nil {
				break
			}
			if err := p.progress(last, now); err != nil {
				return err
			}
			last = now
		}
		if errors.Is(err, io.EOF) && last.GetEnded() {
			return nil
		}
		return answered(err)
	})
	if err == nil {
		err = p.failures(last)
	}
	return last, err
}

// counted prints the result of a dry run.
func (p printer) counted(m *genbusv1.BulkProgress, what string) error {
	if err := p.message(m, "%s%s %s as of %s%s\nrun with --yes to do it, and with --yes --token %s to leave out newer ones", atLeast(m), plural.Count(m.GetTotal(), what), plural.Form(m.GetTotal(), "matches", "match"), moment(m.GetAsOf()), beyondCount(m), m.GetToken()); err != nil {
		return err
	}
	if err := p.failures(m); err != nil || m.GetFailed() == 0 {
		return err
	}
	return exitError{ExitNotPossible, fmt.Errorf("nothing was done: %d on the list %s not found; remove %s", m.GetFailed(), plural.Form(m.GetFailed(), "was", "were"), plural.Form(m.GetFailed(), "it", "them"))}
}

// progress prints the progress of an action. The first line contains the token. In JSON format, it
// prints one document per progress report.
func (p printer) progress(last, now *genbusv1.BulkProgress) error {
	line := fmt.Sprintf("%d of %s%d done: %d changed, %d failed", now.GetDone(), atLeast(now), now.GetTotal(), now.GetChanged(), now.GetFailed())
	switch {
	case p.json:
		return p.asJSON(now)
	case last == nil:
		return p.message(now, "as of %s, token %s%s\n%s", moment(now.GetAsOf()), now.GetToken(), beyondCount(now), line)
	case now.GetEnded():
		return p.message(now, "finished: %d changed, %d failed, %d had ended or no longer matched", now.GetChanged(), now.GetFailed(), now.GetDone()-now.GetChanged()-now.GetFailed())
	case last.GetDone() == now.GetDone():
		return nil
	}
	return p.message(now, "%s", line)
}

// failures prints the failures by error code, with examples.
func (p printer) failures(m *genbusv1.BulkProgress) error {
	if p.json || m.GetFailed() == 0 {
		return nil
	}
	var rows []string
	for _, code := range slices.Sorted(maps.Keys(m.GetFailedByCode())) {
		rows = append(rows, cells(code, fmt.Sprint(m.GetFailedByCode()[code]), strings.Join(examples(m, code), ", ")))
	}
	return p.table("CODE\tFAILED\tSUCH AS", rows)
}

// examples describes the listed jobs and dead letters that failed with a code.
func examples(m *genbusv1.BulkProgress, code string) (names []string) {
	for _, f := range m.GetFailures() {
		switch {
		case f.GetCode() != code:
		case f.GetJobId() != "":
			names = append(names, f.GetJobId()+" ("+clean(f.GetMessage())+")")
		default:
			names = append(names, fmt.Sprintf("dead letter %d (%s)", f.GetLetter(), clean(f.GetMessage())))
		}
	}
	return names
}

func atLeast(m *genbusv1.BulkProgress) string {
	if m.GetTotalExact() {
		return ""
	}
	return "at least "
}

// beyondCount describes the jobs that a count may lack.
func beyondCount(m *genbusv1.BulkProgress) string {
	if m.GetTotalExact() || m.GetCompleteSince() == nil {
		return ""
	}
	return "; jobs accepted before " + moment(m.GetCompleteSince()) + " may be missing (limits.list_index)"
}
