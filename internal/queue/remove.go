package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// RemoveAfter is like Items.AwaitRemoved but for a job that ended, with entry e, before any
// submission. Usually no replica holds such a job, and its item waits behind others. If the item
// still exists after patience, RemoveAfter removes it.
func (q *Queue) RemoveAfter(ctx context.Context, e joblog.Entry, patience time.Duration) error {
	err := q.Items.AwaitRemoved(ctx, e.Name(), patience)
	if errcode.CodeOf(err) != errcode.StillHeld {
		return err
	}
	return q.RemoveEnded(ctx, e)
}

// RemoveEnded removes the work item of an ended job, so that it takes no capacity from other jobs.
// The end and its feed copy are already stored, so a consumer that has just received the item has
// nothing left to do. If the dispatcher copies the item at the same time, either RemoveEnded or the
// dispatcher notices that the original is gone, and removes the copy. If both crash, a consumer
// acks the item when its turn comes.
//
// RemoveEnded skips a job with a submission that may be in progress or undecided, because the
// holder may still have to log the upstream's answer. It also skips an attached job, because its
// end leaves a dead letter.
func (q *Queue) RemoveEnded(ctx context.Context, e joblog.Entry) error {
	if !task.InQueue(e.Job) {
		return nil
	}
	for {
		items, err := q.Items.All(ctx, e.Name())
		if err != nil {
			return fmt.Errorf("look for the work item of %s: %w", e.Job.GetId(), err)
		}
		if dispatched, err := q.removeAll(ctx, e, items); err != nil || !dispatched {
			return err
		}
	}
}

// removeAll removes the items that belong to the ended job. dispatched reports whether an item was
// already gone and may have been dispatched.
func (q *Queue) removeAll(ctx context.Context, e joblog.Entry, items []Item) (dispatched bool, err error) {
	for _, i := range items {
		work, err := i.Decode()
		if err != nil {
			return false, err
		}
		switch has, err := q.hasItem(ctx, e, work); {
		case err != nil:
			return false, err
		case !has:
			continue
		}
		removed, err := q.Items.Remove(ctx, i)
		if err != nil {
			return false, err
		}
		dispatched = dispatched || !removed
		q.Route(subject.Kind(work.GetKind()), work.GetRoute()).recount()
	}
	return dispatched, nil
}

// hasItem reports whether work belongs to the job that ended with e. Comparing acceptance times
// with the end is not enough. Because clocks differ, a later job accepted by another replica may
// seem to be older than the end. The later job's item is stored only after the end is erased, so
// hasItem reads the log after the item.
func (q *Queue) hasItem(ctx context.Context, e joblog.Entry, work *genbusv1.WorkItem) (bool, error) {
	switch {
	case task.SameAcceptance(work, e.Job.GetCreatedAt()):
		return true, nil
	case !task.ItemOf(work, e.Job):
		return false, nil
	}
	now, err := q.log.Get(ctx, e.Name())
	if errors.Is(err, joblog.ErrNotFound) {
		return false, nil
	}
	return now.Seq == e.Seq, err
}
