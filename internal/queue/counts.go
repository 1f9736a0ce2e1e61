package queue

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Counts is the state of a route in the broker as it was read last.
type Counts struct {
	// Ready is the number of ready jobs that were not delivered, and Delivered that of those
	// that were and are not settled.
	Ready, Delivered uint64
	// Backlog is the number of jobs in the backlog.
	Backlog uint64
	Paused  bool
	// Full: as many jobs are delivered as may be at a time.
	Full bool
	// At is when it was read; zero for never.
	At time.Time
}

// Count reads the counts of all routes that this process has asked for, 256 with one
// request. Where a route's durable consumers are not among those that there are, its counts
// stay as they were.
func (q *Queue) Count(ctx context.Context) error {
	q.mu.Lock()
	routes := slices.Collect(maps.Values(q.routes))
	q.mu.Unlock()
	updates := make([]func(int), len(routes))
	for i, r := range routes {
		updates[i] = r.window.beginRead()
	}
	work, err := q.b.Consumers(ctx, q.b.Names().Work())
	wait, errWait := q.b.Consumers(ctx, q.b.Names().Wait())
	for i, r := range routes {
		r.learn(work[r.durable], wait[r.durable], updates[i])
	}
	return errors.Join(err, errWait)
}

// learn takes what was read of the route's durable consumers; nil: nothing.
func (r *Route) learn(work, wait *jetstream.ConsumerInfo, update func(ready int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if work != nil {
		r.counts.Ready, r.counts.Delivered = work.NumPending, uint64(max(work.NumAckPending, 0))
		r.counts.Paused, r.counts.Full = work.Paused, work.Config.MaxAckPending > 0 && work.NumAckPending >= work.Config.MaxAckPending
		update(int(min(work.NumPending, math.MaxInt32)))
	}
	if wait != nil {
		r.counts.Backlog = wait.NumPending
	}
	if work != nil && wait != nil {
		r.counts.At = time.Now()
	}
}

// Counts is what was read last.
func (r *Route) Counts() Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// refresh reads the counts of the route where they are older than that.
func (r *Route) refresh(ctx context.Context, age time.Duration) Counts {
	r.mu.Lock()
	due := !r.reading && time.Since(r.counts.At) >= age
	r.reading = r.reading || due
	r.mu.Unlock()
	if due {
		r.read(ctx)
	}
	return r.Counts()
}

func (r *Route) read(ctx context.Context) {
	update := r.window.beginRead()
	work, wait := r.info(ctx, r.b.Names().Work()), r.info(ctx, r.b.Names().Wait())
	r.learn(work, wait, update)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading = false
	r.counts.At = time.Now() // what cannot be read is not asked for at once
}

// info reads one of the route's durable consumers; nil where it cannot be read.
func (r *Route) info(ctx context.Context, stream string) *jetstream.ConsumerInfo {
	c, err := r.b.Consumer(ctx, stream, r.durable)
	if err != nil {
		return nil
	}
	return c.CachedInfo()
}

// recount has the next caller read the counts again.
func (r *Route) recount() {
	r.mu.Lock()
	r.counts.At = time.Time{}
	r.mu.Unlock()
	r.backlog.wake()
}
