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

// RemoveAfter is AwaitRemoved for a job that ended before any submission began, as e says.
// No holder has an answer to log, and mostly there is no holder: the item waits for its
// turn, behind however many others. So after patience RemoveAfter removes the item,
// wherever it is.
func (q *Queue) RemoveAfter(ctx context.Context, e joblog.Entry, patience time.Duration) error {
	err := q.Items.AwaitRemoved(ctx, e.Name(), patience)
	if errcode.CodeOf(err) != errcode.StillHeld {
		return err
	}
	return q.RemoveEnded(ctx, e)
}

// RemoveEnded removes the work item of a job that has ended, so that other jobs do not wait
// for it and are not refused. The end and its copy in the feed are stored: nothing is left
// to do for a consumer that was just delivered the item. An item that is dispatched at this
// moment is found by whoever loses the race for it in the backlog: the dispatcher, or
// RemoveEnded, which checks again. If both die, the item is acknowledged when its turn
// comes.
//
// A job of which a submission may be under way, or its outcome unknown, is left to its
// holder, which may have the upstream's answer to log; and an attached one too, as its
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

// removeAll removes those of the items that are a job's, and reports whether one was not
// there: it may have been dispatched.
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

// hasItem is task.ItemOf for an item that was read and a job that has ended, as e says. By the
// clock of another replica a later job may be accepted before that end, but its item is not
// stored before the end is erased: so the log is read after the item.
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
