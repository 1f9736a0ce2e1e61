package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
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
	work, subj := a.b.Names().Work(), a.b.Names().WorkAnyRoute(n.Kind, n.Tenant, n.ID)
	for deadline := time.Now().Add(patience); ; {
		_, err := a.b.Last(ctx, work, subj)
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
// is taken out of the queue. Whoever was just given it finds it gone.
func (a *Admission) Withdraw(ctx context.Context, e tasklog.Entry, patience time.Duration) error {
	n := e.Name()
	err := a.Released(ctx, n, patience)
	if fault.CodeOf(err) != fault.StillHeld {
		return err
	}
	item, err := a.b.Last(ctx, a.b.Names().Work(), a.b.Names().WorkAnyRoute(n.Kind, n.Tenant, n.ID))
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return nil
	case err != nil:
		return fmt.Errorf("look for the work item of %s: %w", n.ID, err)
	}
	var work genbusv1.WorkItem
	if err := proto.Unmarshal(item.Data, &work); err != nil {
		return fmt.Errorf("the work item of %s: %w", n.ID, err)
	}
	if !work.GetAcceptedAt().AsTime().Equal(e.Job.GetCreatedAt().AsTime()) {
		return nil // of a later job, made under the id after this one was erased
	}
	return a.takeOut(ctx, item.Seq)
}

func (a *Admission) takeOut(ctx context.Context, seq uint64) error {
	stream, err := a.b.JetStream().Stream(ctx, a.b.Names().Work())
	if err == nil {
		err = stream.DeleteMsg(ctx, seq)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("take work item %d out of the queue: %w", seq, err)
	}
	return nil
}
