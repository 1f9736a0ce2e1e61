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

// RemoveAfter is AwaitRemoved for a job that ended, with entry e, before any submission. Usually no
// replica holds it, and the item waits its turn behind others. After patience, RemoveAfter
// therefore removes the item wherever it is.
func (q *Queue) RemoveAfter(ctx context.Context, e joblog.Entry, patience time.Duration) error {
	err := q.Items.AwaitRemoved(ctx, e.Name(), patience)
	if errcode.CodeOf(err) != errcode.StillHeld {
		return err
	}
	return q.RemoveEnded(ctx, e)
}

// RemoveEnded removes the work item of an ended job, so that it takes no capacity from other jobs.
// The end and its feed copy are stored already, so a consumer that was just delivered the item has
// nothing left to do. If the dispatcher copies the item at the same time, one of the two notices
// that the original is gone and removes the copy. If both die, the item is acknowledged at its
// turn.
//
// RemoveEnded skips a job whose submission may be in progress or undecided, because its holder may
// have the upstream's answer to log, and an attached job, whose end leaves a dead letter.
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

// removeAll removes the items that belong to the ended job. dispatched reports whether an item had
// already left its place, and may have been dispatched.
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

// hasItem reports whether work belongs to the job that ended with e. The acceptance times alone do
// not tell: by another replica's clock, a later job may have been accepted before that end. Its
// item is only stored after the end is erased, so hasItem reads the log after the item.
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
