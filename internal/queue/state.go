package queue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State is how a route is doing over all replicas.
type State struct {
	Paused bool
	// Waiting are the jobs that no replica holds, ready or in the backlog. Oldest is when the
	// first of them was accepted; the zero time where none waits.
	Waiting uint64
	Oldest  time.Time
	// InHand are the jobs that replicas hold, and MaxInFlight the most of them.
	InHand, MaxInFlight uint64
	// ReadyWindow is how many jobs may be ready at a time, as this replica is configured.
	ReadyWindow int
}

// State reads how the route is doing; the number of waiting jobs is up to a second old.
func (r *Route) State(ctx context.Context) (State, error) {
	info, err := r.Info(ctx)
	if err != nil {
		return State{}, err
	}
	r.refresh(ctx, countInterval)
	return r.state(ctx, info, true)
}

// States is State of several routes. It asks the broker for 256 of them with one request, and
// for the first waiting job of those that have some.
func (q *Queue) States(ctx context.Context, routes []*Route) ([]State, error) {
	work, uncounted, err := q.count(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := make([]State, len(routes))
	for i, r := range routes {
		if info := work[r.durable]; info != nil && !uncounted[r] {
			out[i], err = r.state(ctx, info, r.Counts().Backlog > 0)
		} else { // a consumer is gone, or the broker lists none
			out[i], err = r.State(ctx)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *Route) state(ctx context.Context, info *jetstream.ConsumerInfo, backlog bool) (State, error) {
	oldest, err := r.oldest(ctx, info, backlog)
	if err != nil {
		return State{}, err
	}
	n := r.Counts()
	return State{
		Paused: info.Paused, Waiting: n.Ready + n.Backlog, Oldest: oldest,
		InHand: uint64(info.NumAckPending), MaxInFlight: uint64(info.Config.MaxAckPending), ReadyWindow: r.window.limit(),
	}, nil
}
