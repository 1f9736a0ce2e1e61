package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
)

// open decodes a delivered work item. False: there is nothing to work on, and the
// message is settled as far as it can be.
func (c *Consumer) open(m jetstream.Msg) (delivery, *genbusv1.WorkItem, bool) {
	d, err := newDelivery(c.Broker.Conn(), m)
	if err != nil {
		c.Logger.Error("a message that is no delivery", "subject", m.Subject(), "error", err)
		return delivery{}, nil, false
	}
	item, err := decodeItem(m)
	if err != nil {
		c.unreadable(m, d, err)
		return delivery{}, nil, false
	}
	return d, item, true
}

func decodeItem(m jetstream.Msg) (*genbusv1.WorkItem, error) {
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(m.Data(), item); err != nil {
		return nil, err
	}
	if item.GetId() == "" || item.GetTenant() == "" {
		return nil, errors.New("the work item names no job")
	}
	return item, nil
}

// itemBody reads the body of a work item, wherever it is. It is the one place that
// decides that an accepted request is lost.
type itemBody struct {
	missed time.Time // when a read did not find it for the first time; zero: all did
}

// read fails with broker.ErrBodyLost only when the body was missing twice, secondLook
// apart: what has just lost the lead of the object store may answer once more.
func (b *itemBody) read(ctx context.Context, bodies *broker.Bodies, item *genbusv1.WorkItem, now time.Time) ([]byte, error) {
	if item.GetBodyRef() == nil {
		return item.GetBody(), nil
	}
	data, err := bodies.Get(ctx, publisher.BodyOf(item.GetBodyRef()))
	if !errors.Is(err, broker.ErrBodyLost) {
		return data, err
	}
	if b.missed.IsZero() {
		b.missed = now
	}
	if now.Sub(b.missed) < secondLook {
		return nil, fmt.Errorf("not found at first, and looked for again: %s", err.Error()) // not lost yet
	}
	return nil, err
}

// discard removes stored bodies that no event names, and none ever will: what a holder
// has stored that came too late. What cannot be removed stays until the object store's
// TTL, or until the job is erased.
func (c *Consumer) discard(ctx context.Context, refs ...*genbusv1.BlobRef) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	for _, ref := range refs {
		if ref == nil {
			continue
		}
		if err := c.Bodies.Delete(ctx, publisher.BodyOf(ref)); err != nil {
			c.Logger.Warn("a stored body that no event names stays until it expires", "object", ref.GetName(), "error", err)
		}
	}
}

// unreadable settles a work item that cannot be decoded: it becomes a dead
// letter, and its job, which the subject still names, fails.
func (c *Consumer) unreadable(m jetstream.Msg, d delivery, cause error) {
	ctx, cancel := context.WithTimeout(c.working, commitTimeout)
	defer cancel()
	out := Ack()
	if err := c.buryUnreadable(ctx, m, cause); err != nil {
		c.Logger.Error("an unreadable work item could not be settled", "subject", m.Subject(), "error", err)
		out = NakWithDelay(time.Minute)
	}
	if err := settle(d, out); err != nil {
		c.Logger.Warn("settle failed; the message will be redelivered", "subject", m.Subject(), "error", err)
	}
}

func (c *Consumer) buryUnreadable(ctx context.Context, m jetstream.Msg, cause error) error {
	name, err := c.Broker.Names().ParseWorkItem(m.Subject())
	if err != nil {
		return err
	}
	f := fault.New(fault.Internal, "the work item of job %s is unreadable: %w", name.ID, cause)
	letter := &genbusv1.DeadLetter{Error: f.TaskError(), Id: name.ID, Kind: string(name.Kind), Tenant: name.Tenant, Subject: m.Subject(), Data: m.Data()}
	if err := c.dead.Put(ctx, letter, name.ID, "item"); err != nil {
		return err
	}
	c.Logger.Warn("a work item that cannot be read is a dead letter; its job fails", "subject", m.Subject(), "error", cause)
	return c.failItem(ctx, &genbusv1.WorkItem{
		Id: name.ID, Kind: string(name.Kind), Tenant: name.Tenant, Route: name.Route, AcceptedAt: timestamppb.Now(),
	}, f)
}
