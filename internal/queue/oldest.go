package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
)

// Oldest is when the first job that waits was accepted: the first ready job behind
// what the consumer has delivered, which it does in the order of the stream, or the
// first of the backlog. It is the zero time when none waits.
func (r *Route) Oldest(ctx context.Context) (time.Time, error) {
	info, err := r.Info(ctx)
	if err != nil {
		return time.Time{}, errors.Join(broker.ErrUnavailable, err)
	}
	return r.oldest(ctx, info, true)
}

// oldest is Oldest by what the durable consumer of the ready jobs says; backlog is false where
// there is none.
func (r *Route) oldest(ctx context.Context, info *jetstream.ConsumerInfo, backlog bool) (time.Time, error) {
	ready := uint64(0)
	if info.NumPending > 0 {
		ready = info.Delivered.Stream + 1
	}
	return r.acceptedFrom(ctx, ready, backlog)
}

// acceptedFrom is when the first of the route's items was accepted: of the ready ones from a
// sequence on, of which there are none for 0, and of the backlog where there is one. It is the
// zero time where there is no item.
func (r *Route) acceptedFrom(ctx context.Context, readyFrom uint64, backlog bool) (ready time.Time, err error) {
	names := r.b.Names()
	if readyFrom > 0 {
		ready, err = r.acceptedFirst(ctx, names.Work(), names.WorkRoutePattern(r.kind, r.name), readyFrom)
	}
	if err != nil || !backlog {
		return ready, err
	}
	waiting, err := r.acceptedFirst(ctx, names.Wait(), names.WaitRoutePattern(r.kind, r.name), 1)
	if ready.IsZero() || !waiting.IsZero() && waiting.Before(ready) {
		return waiting, err
	}
	return ready, err
}

// acceptedFirst is when the first item from a sequence on was accepted.
func (r *Route) acceptedFirst(ctx context.Context, stream, pattern string, seq uint64) (time.Time, error) {
	m, err := r.b.Next(ctx, stream, pattern, seq)
	if errors.Is(err, broker.ErrNoMessage) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var item genbusv1.WorkItem
	if err := proto.Unmarshal(m.Data, &item); err != nil || item.GetAcceptedAt() == nil {
		return m.Time, nil //nolint:nilerr // when it was stored is a good answer too
	}
	return item.GetAcceptedAt().AsTime(), nil
}
