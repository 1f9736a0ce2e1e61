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

// Oldest returns when the first waiting job was accepted, which is either the first undelivered
// ready job or the first job of the backlog. It returns the zero time if no job waits.
func (r *Route) Oldest(ctx context.Context) (time.Time, error) {
	info, err := r.Info(ctx)
	if err != nil {
		return time.Time{}, errors.Join(broker.ErrUnavailable, err)
	}
	return r.oldest(ctx, info, true)
}

// oldest is like Oldest but uses the given state of the ready jobs' durable consumer. backlog is
// false if the backlog is known to be empty.
func (r *Route) oldest(ctx context.Context, info *jetstream.ConsumerInfo, backlog bool) (time.Time, error) {
	ready := uint64(0)
	if info.NumPending > 0 {
		ready = info.Delivered.Stream + 1
	}
	return r.acceptedFrom(ctx, ready, backlog)
}

// acceptedFrom returns when the route's first item was accepted. It looks at ready items from
// sequence readyFrom on, unless that is 0, and at the backlog if backlog is true. It returns the
// zero time if there is no item.
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
		return m.Time, nil //nolint:nilerr // the time of storage is close enough
	}
	return item.GetAcceptedAt().AsTime(), nil
}
