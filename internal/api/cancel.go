package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// cancelTimeout bounds a cancel, which races with the job's owner.
const cancelTimeout = 20 * time.Second

// canceller is who cancels a job, as its error says it.
type canceller string

const (
	byCaller   canceller = "its caller"
	byOperator canceller = "an operator"
)

// cancel ends a job of either kind by compare-and-set. The owner learns of it
// from the log. A job that has ended is returned as it is.
func (c *core) cancel(ctx context.Context, n subject.TaskName, by canceller) (tasklog.Entry, error) {
	e, err := c.getRecorded(ctx, n)
	if err != nil || e.Terminal() {
		return e, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, cancelTimeout,
		fault.New(fault.AcceptanceUnknown, "cancel %s: no answer within %s; it may have been stored", n.ID, cancelTimeout))
	defer stop()
	for !e.Terminal() {
		if e, err = c.cancelAt(ctx, e, by); err != nil {
			return tasklog.Entry{}, meaning(ctx, n, err)
		}
	}
	return e, nil
}

// cancelAt tries to end the job where e left it. When somebody else was first it
// returns the job as it is now.
func (c *core) cancelAt(ctx context.Context, e tasklog.Entry, by canceller) (tasklog.Entry, error) {
	next, err := task.Cancelled(e.Job, c.now(), cancelled(e.Job, by).TaskError())
	if err != nil {
		return tasklog.Entry{}, err
	}
	ended, err := c.log.Commit(ctx, next, e.Seq)
	var lost *tasklog.LostError
	if errors.As(err, &lost) {
		return lost.Current, nil
	}
	if err != nil {
		return tasklog.Entry{}, err
	}
	c.finish(ctx, ended)
	return ended, nil
}

// finish stores the twin in the feed, although the caller may be gone by now, and
// then has the job leave the queue. The job is cancelled without either: its handler
// stores the twin before the ack.
func (c *core) finish(ctx context.Context, e tasklog.Entry) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	if err := c.log.Finish(ctx, e); err != nil {
		c.logger.WarnContext(ctx, "cancelled job is not in the feed yet", telemetry.KeyJobID, e.Job.GetId(), telemetry.KeyError, err)
		return
	}
	if err := c.queue.Leave(ctx, e); err != nil {
		c.logger.WarnContext(ctx, "cancelled job is in the queue until its turn comes", telemetry.KeyJobID, e.Job.GetId(), telemetry.KeyError, err)
	}
}

func cancelled(j task.Job, by canceller) *fault.Error {
	message := fmt.Sprintf("%s was cancelled by %s before it was submitted to the upstream", j.GetId(), by)
	if j.GetExecution().GetFirstSubmitAt() != nil {
		message = fmt.Sprintf("%s was cancelled by %s after its submission; the upstream may still finish it and charge for it", j.GetId(), by)
	}
	return &fault.Error{Code: fault.Cancelled, Message: message, JobID: j.GetId()}
}
