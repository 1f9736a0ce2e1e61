package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// countInterval is how long counts of a route are used before they are read again.
	countInterval = time.Second
	// pausedWithin bounds the read of a route's state on behalf of a caller who does
	// not need JetStream otherwise.
	pausedWithin = 250 * time.Millisecond
	// resumeIn is when a pause ends that is lifted, by the server's clock. Where a pause ends by
	// time, the server delivers what waits to the requests that it has; where it is taken back,
	// not before their next heartbeat, or another message (nats-server 2.15.2).
	resumeIn = 200 * time.Millisecond
	// pausePoll is how often Pause asks whether all servers know.
	pausePoll = 20 * time.Millisecond
)

// Route is the queue of one route, and what this replica knows of it: mostly as it was read
// from the broker within the last second.
type Route struct {
	b       *broker.Broker
	kind    subject.Kind
	name    string
	durable string
	window  window
	backlog *backlog
	// lease is held by the replica that dispatches the route. The dispatches are safe although
	// several do (jobDispatcher.dispatch): it saves reads of jobs that another one has dispatched, and makes one
	// order of tenants for all replicas. Its flag says that the route is congested: jobs in the
	// backlog wait for room, and the other replicas put new ones behind them.
	lease *fleet.Lease

	ready      atomic.Uint64 // jobs that the durable consumer has not delivered
	waiting    atomic.Uint64 // jobs in the backlog
	stale      atomic.Bool   // the last read of waiting failed
	paused     atomic.Bool
	counted    atomic.Int64 // Unix nanoseconds of the last read; each recount is a number below 1
	added      atomic.Bool  // this replica put a job into the backlog, and no dispatcher of it has looked since
	refreshing atomic.Bool  // one caller at a time reads; a slow broker must not queue up the others
}

// Ensure makes sure of a durable consumer: broker.Streams.EnsureConsumer or RestoreConsumer.
type Ensure func(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error)

// Ensure makes sure, by ensure, of what the route needs in the broker: the durable
// consumer of its ready jobs, which is returned, and one that is never fetched from,
// whose pending count is the size of the backlog.
func (r *Route) Ensure(ctx context.Context, route config.Route, ensure Ensure) (jetstream.Consumer, error) {
	names := r.b.Names()
	ready, err := ensure(ctx, names.Work(), jetstream.ConsumerConfig{
		Durable:       r.durable,
		FilterSubject: names.WorkRoutePattern(r.kind, r.name),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       route.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: route.MaxInFlight,
	})
	if err != nil {
		return nil, err
	}
	_, err = ensure(ctx, names.Wait(), jetstream.ConsumerConfig{
		Durable:       r.durable,
		Description:   "counts; never fetched from",
		FilterSubject: names.WaitRoutePattern(r.kind, r.name),
		AckPolicy:     jetstream.AckNonePolicy,
		HeadersOnly:   true,
	})
	return ready, err
}

// Resize fixes how many jobs may be ready; 0: as many as the route starts in about a second.
// Those beyond that stay ready.
func (r *Route) Resize(readyJobs int) {
	r.window.resize(readyJobs)
	r.backlog.wake()
}

// Taken counts jobs that were delivered to this replica for the first time, so that
// others can become ready.
func (r *Route) Taken(jobs int) {
	r.window.taken(jobs)
	r.backlog.wake()
}

// Waiting is the number of jobs that wait, ready or in the backlog, as of about a
// second ago, and that of the tenants in the backlog, which the replica that dispatches
// the route knows; 0 in the others. A count that cannot be read stays as it was: the limit
// of the stream is the last fence.
func (r *Route) Waiting(ctx context.Context) (jobs uint64, tenants int) {
	r.refresh(ctx, countInterval)
	return r.ready.Load() + r.waiting.Load(), r.backlog.tenants()
}

// Paused reports whether an operator has paused the route, as of about a second ago.
// While JetStream is away it is what was known last, or false.
func (r *Route) Paused(ctx context.Context) bool {
	if !r.fresh(countInterval) && r.b.Trouble() == nil {
		ctx, cancel := context.WithTimeout(ctx, pausedWithin)
		defer cancel()
		r.refresh(ctx, countInterval)
	}
	return r.paused.Load()
}

// Pause has JetStream deliver none of the route's jobs to any replica before a time;
// the zero time resumes. It returns when all servers know, or when ctx ends: three
// nodes answer when a change is only proposed.
func (r *Route) Pause(ctx context.Context, until time.Time) (err error) {
	pauses := !until.IsZero()
	if !pauses {
		var info *jetstream.ConsumerInfo
		if info, err = r.Info(ctx); err == nil {
			if !info.Paused {
				return nil
			}
			until = info.TimeStamp.Add(resumeIn)
		}
	}
	if err == nil {
		_, err = r.b.JetStream().PauseConsumer(ctx, r.b.Names().Work(), r.durable, until)
	}
	if err != nil {
		return fmt.Errorf("pause or resume %s route %s: %w", r.kind, r.name, errors.Join(context.Cause(ctx), broker.ErrUnavailable, err))
	}
	for {
		info, err := r.Info(ctx)
		if err == nil && info.Paused == pauses {
			return nil
		}
		if broker.Wait(ctx, pausePoll) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Info reads the durable consumer of the route's ready jobs.
func (r *Route) Info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	c, err := r.b.Consumer(ctx, r.b.Names().Work(), r.durable)
	if err != nil {
		return nil, fmt.Errorf("%s route %s: %w", r.kind, r.name, err)
	}
	return c.CachedInfo(), nil
}

// fresh reports whether the counts and the state were read within the last age. Those that are
// of the future are not: the clock has gone back since.
func (r *Route) fresh(age time.Duration) bool {
	passed := time.Since(time.Unix(0, r.counted.Load()))
	return 0 <= passed && passed < age
}

// refresh reads the counts and the state of the route where they are older than that.
func (r *Route) refresh(ctx context.Context, age time.Duration) {
	counted := r.counted.Load()
	if r.fresh(age) || !r.refreshing.CompareAndSwap(false, true) {
		return
	}
	defer r.refreshing.Store(false)
	update := r.window.beginRead()
	if info, err := r.Info(ctx); err == nil {
		r.ready.Store(info.NumPending)
		r.paused.Store(info.Paused)
		update(readingOf(info), time.Now())
	}
	if c, err := r.b.Consumer(ctx, r.b.Names().Wait(), r.durable); err == nil {
		r.waiting.Store(c.CachedInfo().NumPending)
		r.wakeFor(c.CachedInfo().NumPending)
		r.stale.Store(false)
	} else {
		r.stale.Store(true)
	}
	r.counted.CompareAndSwap(counted, time.Now().UnixNano())
}

// learn takes what was read of the route's durable consumers, unless something newer is
// known: counted is what the route said when the read began.
func (r *Route) learn(work, wait *jetstream.ConsumerInfo, counted int64, update func(reading, time.Time)) {
	if !r.refreshing.CompareAndSwap(false, true) {
		return
	}
	defer r.refreshing.Store(false)
	if r.counted.Load() != counted {
		return
	}
	r.ready.Store(work.NumPending)
	r.waiting.Store(wait.NumPending)
	r.stale.Store(false)
	r.paused.Store(work.Paused)
	update(readingOf(work), time.Now())
	r.counted.CompareAndSwap(counted, time.Now().UnixNano())
	r.wakeFor(wait.NumPending)
}

// wakeFor has the dispatcher look at a backlog that was counted, and that no one dispatches.
func (r *Route) wakeFor(waiting uint64) {
	if waiting > 0 && r.lease.Vacant(time.Now()) {
		r.backlog.wake()
	}
}

// Counts are a route's jobs as they were counted last.
type Counts struct {
	// Ready and Backlog are the jobs that wait, and Tenants those of the backlog, which the
	// replica that dispatches the route knows; 0 in the others.
	Ready, Backlog uint64
	Tenants        int
	Paused         bool
}

// Counts is what was counted last; it asks the broker for nothing.
func (r *Route) Counts() Counts {
	return Counts{Ready: r.ready.Load(), Backlog: r.waiting.Load(), Tenants: r.backlog.tenants(), Paused: r.paused.Load()}
}

// put notes that this replica has put a job into the backlog.
func (r *Route) put() {
	r.waiting.Add(1)
	r.added.Store(true)
	r.backlog.wake()
}

// hasBacklog reports whether a new job of a tenant has to go behind others: the replica that
// dispatches knows each of them, and the others what it says. A tenant that is passed over is in
// the way of its own jobs alone. Before the replica knows, and while none dispatches, the count
// decides.
func (r *Route) hasBacklog(tenant string, now time.Time) bool {
	if r.lease.Held() {
		waits, all := r.backlog.waits(now)
		return waits || r.backlog.latest(tenant) > 0 || !all && r.waiting.Load() > 0
	}
	if _, congested, held := r.lease.Holder(now); held {
		return congested
	}
	return r.waiting.Load() > 0
}

// recount has the next caller read the counts again, also where a read is under way: that
// one may have begun before what changed.
func (r *Route) recount() {
	for {
		if counted := r.counted.Load(); r.counted.CompareAndSwap(counted, min(counted, 0)-1) {
			break
		}
	}
	r.backlog.wake()
}
