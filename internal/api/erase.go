package api

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

const (
	// eraseTimeout bounds the whole of an erasure.
	eraseTimeout = 30 * time.Second
	// holderPatience is how long the holder of a cancelled job has to let it go: it
	// may be waiting for its upstream's answer.
	holderPatience = 10 * time.Second
	// queuedPatience is the same for a job of which no submission began. Mostly it
	// has no holder, so that there is nobody to wait for.
	queuedPatience = time.Second
)

// erase cancels a video task that has not ended, waits until nobody works on it,
// and then removes what is stored of it: bodies and copies first, the events
// last, so that an erasure that fails can be repeated. Afterwards the same
// request id makes a new job.
func (c *core) erase(ctx context.Context, n subject.TaskName) error {
	e, err := c.cancel(ctx, n)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(ctx, eraseTimeout,
		fault.New(fault.AcceptanceUnknown, "erase %s: no answer within %s; send the same request again", n.ID, eraseTimeout))
	defer stop()
	if err := c.release(ctx, e); err != nil {
		return meaning(ctx, n, err)
	}
	if e, err = c.get(ctx, n); err != nil {
		return err
	}
	if !e.Terminal() {
		return notFound(n) // erased meanwhile, and made anew
	}
	var failed []error
	for _, ref := range c.storedFor(video(e)) {
		failed = append(failed, c.bodies.Delete(ctx, ref))
	}
	if err := errors.Join(failed...); err != nil {
		return meaning(ctx, n, err)
	}
	if err := c.log.Erase(ctx, e); err != nil {
		return meaning(ctx, n, err)
	}
	return nil
}

// release returns when nobody works on a job that has ended.
func (c *core) release(ctx context.Context, e tasklog.Entry) error {
	if e.Job.GetExecution().GetFirstSubmitAt() == nil {
		return c.admission.Withdraw(ctx, e, queuedPatience)
	}
	return c.admission.Released(ctx, e.Name(), holderPatience)
}

// storedFor lists what the object store has, or may have, of a task. Copies of
// one that did not complete are in no event.
func (c *core) storedFor(t *genbusv1.VideoTask) []broker.Body {
	var out []broker.Body
	for _, ref := range t.GetArchive().GetFiles() {
		out = append(out, publisher.BodyOf(ref))
	}
	x := t.GetExecution()
	if x.GetInput() != nil {
		out = append(out, publisher.BodyOf(x.GetInput()))
	}
	if x.GetArchiveUntil() != nil && t.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		for i := range publisher.MaxCopies {
			out = append(out, broker.Body{Bucket: c.bodies.Bucket(t.GetTenant()), Name: publisher.CopyName(t.GetId(), i)})
		}
	}
	return out
}
