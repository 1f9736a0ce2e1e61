package queue

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// beginWithin is how long an item may be assumed to exist after it was seen. It exceeds the time
// that a healthy broker needs for a write, so usually no read is needed.
const beginWithin = time.Second

// confirmWithin bounds what Confirm does after its wait: the second check, and ending a job without
// an item.
const confirmWithin = 10 * time.Second

// Begin writes the first event of a work item's job and returns the job's current state, which
// another replica may have advanced. seen is when the caller saw the item in the queue, or zero.
// Admission, the dispatcher and callers that ask for a job use Begin to log it. A holder commits
// the event itself and then calls Confirm.
func (s Items) Begin(ctx context.Context, item joblog.WorkItem, seen time.Time) (joblog.Entry, error) {
	e, err := s.log.Commit(telemetry.Extract(ctx, item.GetTrace()), task.FromWork(item.WorkItem), 0)
	if lost, ok := errors.AsType[*joblog.LostError](err); ok {
		return lost.Current, nil
	}
	if err != nil || since(seen) < beginWithin {
		return e, err
	}
	return s.Confirm(ctx, e)
}

// Confirm checks that a job still has its work item after the caller has written its first event e.
// If another replica logged the job earlier, and the job then ended and was erased, the empty log
// accepts the first event again, but no replica will run the job. Confirm ends such a job as
// not_enqueued, so that its followers and attached requests get a result. It waits and checks a
// second time before it ends the job, even if ctx ends. It returns the job's current state.
func (s Items) Confirm(ctx context.Context, e joblog.Entry) (joblog.Entry, error) {
	if there, err := s.carries(ctx, e); there || err != nil {
		return e, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), joblog.SecondLook+confirmWithin)
	defer cancel()
	if err := broker.Wait(ctx, joblog.SecondLook); err != nil {
		return e, err
	}
	if there, err := s.carries(ctx, e); there || err != nil {
		return e, err
	}
	f := errcode.New(errcode.NotEnqueued, "job %s has no work item: it was erased or the queue was lost during its acceptance", e.Job.GetId())
	end, err := task.Failed(e.Job, time.Now(), f.TaskError())
	if err != nil {
		return e, err
	}
	current, err := s.log.CommitOrCurrent(ctx, end, e.Seq)
	if err != nil || !current.Terminal() {
		return current, err
	}
	return current, s.log.Finish(ctx, current)
}

// carries reports whether there is a work item that the job can run from.
func (s Items) carries(ctx context.Context, e joblog.Entry) (bool, error) {
	items, err := s.All(ctx, e.Name())
	for _, i := range items {
		if item, err := i.Decode(); err != nil || task.Carries(item, e.Job) {
			return true, nil //nolint:nilerr // the holder ends the job if its item cannot be decoded
		}
	}
	return false, err
}

// since returns the time since t by the monotonic clock or the wall clock, whichever is longer. The
// monotonic clock stops while the machine is suspended.
func since(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
