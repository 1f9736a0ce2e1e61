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

// beginWithin is the age at which a sighting of an item no longer proves that it exists. It exceeds
// the time of a healthy broker's write, so that the usual case needs no read.
const beginWithin = time.Second

// confirmWithin bounds the second check of Confirm, after its wait, and the end of a job without an
// item.
const confirmWithin = 10 * time.Second

// Begin writes the first event of a work item's job and returns the job's current state, which
// another replica may have advanced. seen is when the caller saw the item in the queue, or zero.
// Admission, the dispatcher and callers who ask for a job all log it through Begin; a holder uses a
// commit and Confirm.
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

// Confirm checks that a job whose first event e the caller has just written has its work item. If
// another replica logged the job earlier, and the job ended and was erased, the empty log accepts
// the first event of a job that nothing will run. Confirm ends such a job as not_enqueued, which
// tells its followers and attached requests. It checks twice, even if ctx ends, and returns the
// log's state if the job continues.
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

// since returns the time since t. Only the wall clock advances while the machine is suspended.
func since(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
