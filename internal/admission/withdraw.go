package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// withdrawEvery is how often Withdraw looks. JetStream tells nobody that an item
// was acknowledged.
const withdrawEvery = 100 * time.Millisecond

// Withdraw returns when a job that has ended has no work item any more. Its
// holder acknowledges the item as soon as it hears of the end; after patience
// the item is taken away from a holder that has not.
func (a *Admission) Withdraw(ctx context.Context, n subject.TaskName, patience time.Duration) error {
	work, subj := a.b.Names().Work(), a.b.Names().WorkAnyRoute(n.Kind, n.Tenant, n.ID)
	for deadline := time.Now().Add(patience); ; {
		item, err := a.b.Last(ctx, work, subj)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			return nil
		case err != nil:
			return fmt.Errorf("withdraw %s: %w", n.ID, err)
		case time.Now().After(deadline):
			return a.takeAway(ctx, work, item.Seq)
		}
		if err := broker.Wait(ctx, withdrawEvery); err != nil {
			return err
		}
	}
}

func (a *Admission) takeAway(ctx context.Context, work string, seq uint64) error {
	stream, err := a.b.JetStream().Stream(ctx, work)
	if err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	if err := stream.DeleteMsg(ctx, seq); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("withdraw: %w", err)
	}
	return nil
}
