package command

import (
	"context"
	"fmt"
	"io"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// foundJob names a job on the command line by any of its IDs.
type foundJob struct {
	ID     string `arg:"" help:"Job ID; with --tenant, also its beginning, the upstream task ID or the request ID, if only one job has it."`
	Tenant string `help:"Tenant of the job."`
	Kind   string `help:"Kind, video or chat, if the request ID has both."`
}

// find returns the job. The index may not know that another ID than the job's own fits jobs of
// several tenants, so such an ID needs the tenant.
func (n foundJob) find(ctx context.Context, call operatorCall) (*genbusv1.JobSummary, error) {
	answer, err := call.GetJob(ctx, &genbusv1.GetJobRequest{Id: n.ID, Tenant: n.Tenant, Kind: n.Kind})
	j := answer.GetJob()
	if err == nil && n.Tenant == "" && j.GetId() != n.ID {
		return nil, WrongUse("%s is not a whole job ID and fits job %s of %s: name that job, or set --tenant", n.ID, j.GetId(), j.GetTenant())
	}
	return j, answered(err)
}

type jobsRetryCommand struct {
	foundJob
	Edit string `help:"File with the edited request as JSON in the protocol of the job's route; - for standard input. Default: the original request." type:"path" placeholder:"FILE"`
	Key  string `help:"Idempotency key of the retry: the same key makes one job; use another key for a second job." name:"retry-key"`
}

func (c jobsRetryCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	edited, err := c.edited()
	if err != nil {
		return err
	}
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		j, err := c.find(ctx, call)
		if err != nil {
			return err
		}
		answer, err := call.RetryJob(ctx, &genbusv1.RetryJobRequest{
			Kind: j.GetKind(), Tenant: j.GetTenant(), Id: j.GetId(), RequestJson: edited, IdempotencyKey: c.Key,
		})
		if err != nil {
			return answered(err)
		}
		return call.message(answer, "submitted %s again as job %s (%s)", j.GetId(), answer.GetId(), task.StatusWord(answer.GetStatus()))
	})
}

// edited returns the edited request, or nil without --edit.
func (c jobsRetryCommand) edited() ([]byte, error) {
	if c.Edit == "" {
		return nil, nil
	}
	return readBody("--edit", c.Edit)
}

type jobsBodyCommand struct {
	foundJob
	Reply bool `help:"Print the reply of a completed chat instead of its request."`
}

// Run prints a stored body unchanged, so that it can be edited and submitted.
func (c jobsBodyCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		j, err := c.find(ctx, call)
		if err != nil {
			return err
		}
		answer, err := call.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: j.GetKind(), Tenant: j.GetTenant(), Id: j.GetId()})
		if err != nil {
			return answered(err)
		}
		what, data, ref := "request", answer.GetRequestJson(), answer.GetRequestRef()
		if c.Reply {
			what, data, ref = "reply", answer.GetReplyJson(), answer.GetReplyRef()
		}
		switch {
		case call.json:
			return call.asJSON(answer)
		case ref != nil:
			return exitError{ExitNotPossible, fmt.Errorf("the %s of %s is too long to print; read object %s of bucket %s", what, j.GetId(), ref.GetName(), ref.GetBucket())}
		case len(data) == 0:
			return exitError{ExitNotFound, fmt.Errorf("the %s of %s is not stored", what, j.GetId())}
		}
		_, err = fmt.Fprintf(call.out, "%s\n", data)
		return err
	})
}
