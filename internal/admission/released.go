package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
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
// is taken out, wherever it stands. Whoever was just given it finds it gone; and an
// usher that was just moving it puts an item in line whose job has no log any more,
// which nobody runs.
func (a *Admission) Withdraw(ctx context.Context, e tasklog.Entry, patience time.Duration) error {
	err := a.Released(ctx, e.Name(), patience)
	if fault.CodeOf(err) != fault.StillHeld {
		return err
	}
	return a.removeItems(ctx, e, a.Items)
}

// Leave takes a job that has ended out of those that wait for their turn, so that
// it takes nobody's place. One in line is left to the consumer.
func (a *Admission) Leave(ctx context.Context, e tasklog.Entry) error {
	return a.removeItems(ctx, e, func(ctx context.Context, n subject.TaskName) ([]Item, error) {
		i, err := a.Find(ctx, n)
		if errors.Is(err, broker.ErrNoMessage) || err == nil && i.Stream != a.b.Names().Wait() {
			return nil, nil
		}
		return []Item{i}, err
	})
}

// removeItems deletes those of the items found that are e's: not those of a later
// job, made under the id after this one was erased.
func (a *Admission) removeItems(ctx context.Context, e tasklog.Entry, find func(context.Context, subject.TaskName) ([]Item, error)) error {
	items, err := find(ctx, e.Name())
	if err != nil {
		return fmt.Errorf("look for the work item of %s: %w", e.Job.GetId(), err)
	}
	for _, i := range items {
		work, err := i.Decode()
		if err != nil {
			return err
		}
		if !work.GetAcceptedAt().AsTime().Equal(e.Job.GetCreatedAt().AsTime()) {
			continue
		}
		if err := a.Remove(ctx, i); err != nil {
			return err
		}
	}
	return nil
}
