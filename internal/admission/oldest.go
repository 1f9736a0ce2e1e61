package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Oldest is when the first job that waits for a route was accepted: the first in
// the line behind what its consumer has delivered, which it does in the order of
// the stream, or the first of those that wait for their turn. It is the zero time
// when none waits.
func (a *Admission) Oldest(ctx context.Context, kind subject.Kind, route string) (time.Time, error) {
	names := a.b.Names()
	consumer, err := a.b.Consumer(ctx, names.Work(), subject.WorkDurable(kind, route))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s route %s: %w", kind, route, errors.Join(broker.ErrUnavailable, err))
	}
	info := consumer.CachedInfo()
	line, room := time.Time{}, time.Time{}
	if info.NumPending > 0 {
		line, err = a.acceptedFirst(ctx, names.Work(), names.WorkRoutePattern(kind, route), info.Delivered.Stream+1)
	}
	if err == nil {
		room, err = a.acceptedFirst(ctx, names.Wait(), names.WaitRoutePattern(kind, route), 1)
	}
	if line.IsZero() || !room.IsZero() && room.Before(line) {
		return room, err
	}
	return line, err
}

// acceptedFirst is when the first item from a sequence on was accepted.
func (a *Admission) acceptedFirst(ctx context.Context, stream, pattern string, seq uint64) (time.Time, error) {
	m, err := a.b.Next(ctx, stream, pattern, seq)
	if errors.Is(err, broker.ErrNoMessage) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var item genbusv1.WorkItem
	if err := proto.Unmarshal(m.Data, &item); err != nil || item.GetAcceptedAt() == nil {
		return m.Time, nil //nolint:nilerr // when it was stored says it as well
	}
	return item.GetAcceptedAt().AsTime(), nil
}
