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

// beginWithin is the time after which an item that was seen is taken to be possibly gone. It
// is longer than a write of a broker that is well, so that nothing is read for it then.
const beginWithin = time.Second

// confirmWithin bounds the second look, after its wait, and the end of a job without an item.
const confirmWithin = 10 * time.Second

// Begin writes the first event of a work item's job, and returns the job as the log has it
// then: another replica may have written it, and gone on. seen is when the item was in the
// queue; zero where that is not known. It is the only way in which a queued job enters the
// log, for its admission, for the dispatcher, and for callers who ask for the job; its
// holder does the same by its own commit and Confirm.
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

// Confirm makes sure that a job whose first event the caller has written, e, has its work
// item. A writer may be slow, or stopped for a while: another replica may have written the
// event before it, and the job may have ended and been erased. The log is empty then, and
// takes the first event of a job that nothing carries on. Such a job ends as not_enqueued:
// its followers, and requests that have attached to it, are told. It takes two looks, which
// outlive ctx. The log decides where the job goes on after all.
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

// carries reports whether there is a work item that a job runs from.
func (s Items) carries(ctx context.Context, e joblog.Entry) (bool, error) {
	items, err := s.All(ctx, e.Name())
	for _, i := range items {
		if item, err := i.Decode(); err != nil || task.Carries(item, e.Job) {
			return true, nil //nolint:nilerr // the holder of an item that cannot be decoded ends the job
		}
	}
	return false, err
}

// since is how long ago t was. While the machine is suspended only the wall clock goes on.
func since(t time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(t), now.Round(0).Sub(t.Round(0)))
}
