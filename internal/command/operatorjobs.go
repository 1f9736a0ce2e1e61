package command

import (
	"context"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// operatorJob names a job on the command line.
type operatorJob struct {
	Tenant string `arg:"" help:"Tenant of the job."`
	ID     string `arg:"" help:"Job ID: video_… or chat_…."`
}

func (n operatorJob) kind() (string, error) {
	kind, ok := subject.KindOf(n.ID)
	if !ok {
		return "", WrongUse("%q is not a job ID; IDs look like video_… or chat_…, with 26 letters and digits", n.ID)
	}
	return string(kind), nil
}

type cancelCommand struct{ operatorJob }

func (c cancelCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	kind, err := c.kind()
	if err != nil {
		return err
	}
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.CancelJob(ctx, &genbusv1.CancelJobRequest{Kind: kind, Tenant: c.Tenant, Id: c.ID})
		if err != nil {
			return answered(err)
		}
		return call.message(answer, "%s is %s", answer.GetId(), task.StatusWord(answer.GetStatus()))
	})
}

type eraseCommand struct{ operatorJob }

func (c eraseCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	kind, err := c.kind()
	if err != nil {
		return err
	}
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.EraseJob(ctx, &genbusv1.EraseJobRequest{Kind: kind, Tenant: c.Tenant, Id: c.ID})
		if err != nil {
			return answered(err)
		}
		return call.message(answer, "erased %s", c.ID)
	})
}
