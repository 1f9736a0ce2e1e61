package command

import (
	"context"
	"fmt"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/plural"
)

type orphansCommand struct {
	List orphansListCommand `cmd:"" help:"List unconfigured routes that have jobs."`
	Fail orphansFailCommand `cmd:"" help:"End the jobs of an unconfigured route."`
}

type orphansListCommand struct{}

func (orphansListCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListOrphans(ctx, &genbusv1.ListOrphansRequest{})
		if err != nil {
			return answered(err)
		}
		return call.orphans(answer)
	})
}

type orphansFailCommand struct {
	Kind              string `arg:"" enum:"video,chat" help:"video or chat."`
	Name              string `arg:"" help:"Name of the unconfigured route."`
	NoReplicaServesIt bool   `help:"Confirm that no replica serves the route. Replicas that do lose its jobs." required:""`
}

// Run repeats the call until no page is left, and prints the totals. The time limit applies to each
// call. Run fails if there were no jobs or some of them were not ended.
func (c orphansFailCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	sum := &genbusv1.OrphansSettled{}
	for {
		var page *genbusv1.OrphansSettled
		err := o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
			answer, err := call.FailOrphans(ctx, &genbusv1.FailOrphansRequest{
				Kind: c.Kind, Name: c.Name, NoReplicaServesIt: c.NoReplicaServesIt, PageToken: sum.GetNextPageToken(),
			})
			page = answer.GetSettled()
			return answered(err)
		})
		if err != nil && sum.GetNextPageToken() != "" {
			err = fmt.Errorf("stopped after %s ended; run the command again: %w", plural.Count(sum.GetEnded(), "job"), err)
		}
		if err != nil {
			return err
		}
		sum.Ended += page.GetEnded()
		sum.Removed += page.GetRemoved()
		sum.Left = append(sum.Left, page.GetLeft()...)
		if sum.NextPageToken = page.GetNextPageToken(); sum.GetNextPageToken() == "" {
			return c.finish(sum, printer{out: out, json: o.JSON})
		}
	}
}

// finish prints the totals and returns the error that sets the exit code.
func (c orphansFailCommand) finish(sum *genbusv1.OrphansSettled, p printer) error {
	left := len(sum.GetLeft())
	none := left == 0 && sum.GetEnded()+sum.GetRemoved() == 0
	if !none || p.json {
		if err := p.orphansFailed(sum); err != nil {
			return err
		}
	}
	switch {
	case none:
		return exitError{ExitNotFound, fmt.Errorf("no job has %s route %s", c.Kind, c.Name)}
	case left > 0:
		return exitError{ExitNotPossible, fmt.Errorf("%s of %s route %s %s left", plural.Count(left, "job"), c.Kind, c.Name, plural.Form(left, "was", "were"))}
	}
	return nil
}
