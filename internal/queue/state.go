package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// askWithin is how long several routes are asked for one by one.
const askWithin = 2 * time.Second

// State is how a route is doing over all replicas.
type State struct {
	Paused bool
	// Waiting are the jobs that no replica holds, ready or in the backlog. Oldest is when the
	// first of them was accepted; the zero time where none waits.
	Waiting uint64
	Oldest  time.Time
	// Held is how many jobs replicas hold, and MaxInFlight the most of them.
	Held, MaxInFlight uint64
	// ReadyWindow is how many jobs may be ready at a time, as this replica is configured.
	ReadyWindow int
	// Incomplete says that the broker did not tell all of it: a durable consumer is gone, or does
	// not answer. Paused and Waiting are then as this replica read them last, and the rest may be
	// zero.
	Incomplete bool
}

// State reads how the route is doing; what it counts of the backlog is up to a second old. With an
// error the state is incomplete.
func (r *Route) State(ctx context.Context) (State, error) {
	info, err := r.Info(ctx)
	if err != nil {
		n := r.Counts()
		return State{Paused: n.Paused, Waiting: n.Ready + n.Backlog, ReadyWindow: r.window.limit(), Incomplete: true}, err
	}
	r.refresh(ctx, countInterval)
	return r.state(ctx, info, true)
}

// States is State of several routes. It asks the broker for 256 of them with one request, and
// for the first waiting job of those that have some. Some may be incomplete; the error says that
// the broker told of none.
func (q *Queue) States(ctx context.Context, routes []*Route) ([]State, error) {
	work, uncounted, err := q.count(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := make([]State, len(routes))
	answered, failed := false, error(nil)
	set := func(i int, s State, err error) {
		out[i] = s
		if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
			answered = true
		} else {
			failed = err
		}
	}
	var alone []int // a consumer is gone, or the broker lists none
	for i, r := range routes {
		info := work[r.durable]
		if info == nil || uncounted[r] {
			alone = append(alone, i)
			continue
		}
		s, err := r.state(ctx, info, r.Counts().Backlog > 0)
		set(i, s, err)
	}
	// These come last: one that does not answer may take all the time.
	ctx, cancel := context.WithTimeoutCause(ctx, askWithin, fmt.Errorf("no answer within %s", askWithin))
	defer cancel()
	for _, i := range alone {
		s, err := routes[i].State(ctx)
		set(i, s, err)
	}
	if !answered {
		return out, failed
	}
	return out, nil
}

// state is State by what the durable consumer of the ready jobs says; backlog is false where
// there is none.
func (r *Route) state(ctx context.Context, info *jetstream.ConsumerInfo, backlog bool) (State, error) {
	oldest, err := r.oldest(ctx, info, backlog)
	// What is ready and what is held are of one answer: by an older count, a job that was taken
	// since would be in both.
	return State{
		Paused: info.Paused, Waiting: info.NumPending + r.Counts().Backlog, Oldest: oldest,
		Held: uint64(info.NumAckPending), MaxInFlight: uint64(info.Config.MaxAckPending), ReadyWindow: r.window.limit(),
		Incomplete: err != nil || r.stale.Load(),
	}, err
}
