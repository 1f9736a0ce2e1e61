package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/telemetry"
)

// open decodes a delivered work item. It returns false if the message cannot be processed. In that
// case, it tries to settle the message, unless the message is not a delivery.
func (c *Consumer) open(m jetstream.Msg) (hold.Delivery, *genbusv1.WorkItem, bool) {
	d, err := hold.NewDelivery(c.Broker.WriteConn(), m)
	if err != nil {
		c.Logger.Error("ignored message without delivery metadata", "subject", m.Subject(), telemetry.KeyError, err)
		return hold.Delivery{}, nil, false
	}
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(m.Data(), item); err != nil {
		c.unreadable(m, d, err)
		return d, nil, false
	}
	if item.GetId() == "" || item.GetTenant() == "" {
		c.unreadable(m, d, errors.New("the work item has no job ID or tenant"))
		return d, nil, false
	}
	return d, item, true
}

// unreadable settles a work item that cannot be decoded. It stores a dead letter and fails the job
// that the subject names.
func (c *Consumer) unreadable(m jetstream.Msg, d hold.Delivery, cause error) {
	ctx, cancel := context.WithTimeout(c.holder.Working, hold.CommitTimeout)
	defer cancel()
	var outcome error
	name, err := c.Broker.Names().ParseWorkItem(m.Subject())
	if err == nil {
		err = c.holder.DeadLetters.FailUnreadable(ctx, c.Log, name, m.Subject(), m.Data(), cause)
	}
	if err != nil {
		c.Logger.Error("could not settle unreadable work item", "subject", m.Subject(), telemetry.KeyError, err)
		outcome = hold.ReturnAfter(time.Minute)
	}
	if err := d.Settle(outcome); err != nil {
		c.Logger.Warn("could not settle message, awaiting redelivery", "subject", m.Subject(), telemetry.KeyError, err)
	}
}
