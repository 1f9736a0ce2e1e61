package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// askWithin bounds the time for reading routes one by one.
const askWithin = 2 * time.Second

// State describes a route across all replicas.
type State struct {
	// Pause is nil if the route is not paused.
	Pause *Pause
	// Waiting is the number of jobs that no replica holds, ready or in the backlog. Oldest is when
	// the first of them was accepted, or zero if there are none.
	Waiting uint64
	Oldest  time.Time
	// Held is the number of jobs that replicas hold, and MaxInFlight is its limit.
	Held, MaxInFlight uint64
	// ReadyWindow is how many jobs may be ready at a time, as seen by this replica.
	ReadyWindow int
	// Incomplete means that a durable consumer is missing or does not answer. Pause and Waiting
	// are then the latest known values, and the other fields may be zero.
	Incomplete bool
}

// State reads the route's state. The size of the backlog is up to a second old. After an error, the
// state is incomplete.
func (r *Route) State(ctx context.Context) (State, error) {
	info, err := r.Info(ctx)
	if err != nil {
		n := r.Counts()
		return State{Pause: n.Pause, Waiting: n.Ready + n.Backlog, ReadyWindow: r.window.limit(), Incomplete: true}, err
	}
	r.refresh(ctx, countInterval)
	return r.state(ctx, info, true)
}

// States returns the State of each route, in the same order. It reads 256 routes per request, plus
// the first waiting job of each route that has one. Some states may be incomplete. States fails
// only if ctx ends or the broker answers for none of the routes.
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
	var alone []int // indexes of routes that the lists do not cover
	for i, r := range routes {
		info := work[r.durable]
		if info == nil || uncounted[r] {
			alone = append(alone, i)
			continue
		}
		s, err := r.state(ctx, info, r.Counts().Backlog > 0)
		set(i, s, err)
	}
	// These routes come last, because one that does not answer may use up the time.
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

// state builds the State from the durable consumer of the ready jobs. backlog is false if the
// backlog is known to be empty.
func (r *Route) state(ctx context.Context, info *jetstream.ConsumerInfo, backlog bool) (State, error) {
	oldest, err := r.oldest(ctx, info, backlog)
	// The numbers of ready and held jobs must come from the same answer. With an older count, a job
	// taken since then would be in both.
	return State{
		Pause: pauseOf(info), Waiting: info.NumPending + r.Counts().Backlog, Oldest: oldest,
		Held: uint64(info.NumAckPending), MaxInFlight: uint64(info.Config.MaxAckPending), ReadyWindow: r.window.limit(),
		Incomplete: err != nil || r.stale.Load(),
	}, err
}
