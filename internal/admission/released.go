package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// releasedEvery is how often Released looks. JetStream tells nobody that an item
// was acknowledged.
const releasedEvery = 100 * time.Millisecond

// Released returns when nobody works on a job that has ended: its work item is
// gone. Its holder lets go as soon as it hears of the end, and another replica
// after AckWait where the holder is dead. It is never taken away from a holder,
// who may have the upstream's answer to record. After patience the error is
// still_held.
func (a *Admission) Released(ctx context.Context, n subject.TaskName, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		_, err := a.Find(ctx, n)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			return nil
		case err != nil:
			return fmt.Errorf("look for the work item of %s: %w", n.ID, err)
		case time.Now().After(deadline):
			return fault.New(fault.StillHeld, "job %s has ended, and a replica has not let go of it yet; send the same request again", n.ID).
				WithRetryAfter(5 * time.Second).ForJob(n.ID)
		}
		if err := broker.Wait(ctx, releasedEvery); err != nil {
			return err
		}
	}
}

// Withdraw is Released for a job that ended before any submission began, as e
// says. Nobody has an answer to record then, and mostly nobody holds the job: its
// item waits for its turn, behind however many others. So after patience the item
// is taken out, wherever it is.
func (a *Admission) Withdraw(ctx context.Context, e tasklog.Entry, patience time.Duration) error {
	err := a.Released(ctx, e.Name(), patience)
	if fault.CodeOf(err) != fault.StillHeld {
		return err
	}
	return a.Leave(ctx, e)
}

// Leave has a job that has ended give its place in the queue back at once, so that the
// jobs of others do not wait for it, or are refused. The end and its copy in the feed are
// stored: nothing is left to do for a consumer that was just given the item, and finds it
// gone. What comes into the line at this very moment is found by the one who loses the race
// for where it waited: the dispatcher, or Leave, which looks again. Where both die, the
// item is acknowledged when its turn comes.
//
// A job of which a submission may be under way, or its outcome unknown, is left to its
// holder, who may have the upstream's answer to record; and an attached one too, as its
// end leaves a letter.
func (a *Admission) Leave(ctx context.Context, e tasklog.Entry) error {
	if !task.InQueue(e.Job) {
		return nil
	}
	for {
		items, err := a.Items(ctx, e.Name())
		if err != nil {
			return fmt.Errorf("look for the work item of %s: %w", e.Job.GetId(), err)
		}
		if moved, err := a.leaveAll(ctx, e, items); err != nil || !moved {
			return err
		}
	}
}

// leaveAll removes those of the items that are a job's, and reports whether one was gone
// already: then it may stand in line meanwhile. Of two sends of one request each may have
// stored an item, of which the log has one: both are the job's. A later job's, made under
// the id after this one was erased, was accepted after its end.
func (a *Admission) leaveAll(ctx context.Context, e tasklog.Entry, items []Item) (moved bool, err error) {
	for _, i := range items {
		work, err := i.Decode()
		if err != nil {
			return false, err
		}
		if !itemOf(e, work) {
			continue
		}
		removed, err := a.Remove(ctx, i)
		if err != nil {
			return false, err
		}
		moved = moved || !removed
		a.recount(subject.Kind(work.GetKind()), work.GetRoute())
	}
	return moved, nil
}

// itemOf reports whether a work item is of a job.
func itemOf(e tasklog.Entry, work *genbusv1.WorkItem) bool {
	accepted, end := work.GetAcceptedAt().AsTime(), e.Job.GetCompletedAt()
	return accepted.Equal(e.Job.GetCreatedAt().AsTime()) ||
		end != nil && task.SameRequest(work, e.Job.GetExecution()) && !accepted.After(end.AsTime())
}

// recount has what is known of a route's queue read again by the next who asks.
func (a *Admission) recount(kind subject.Kind, route string) {
	a.queues.count(subject.WorkDurable(kind, route)).at.Store(0)
	a.waiting.route(kind, route).ring()
}
