package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// countInterval is how long a route's counts stay fresh.
	countInterval = time.Second
	// pausedWithin bounds the read of a route's state for callers that otherwise do not need
	// JetStream.
	pausedWithin = 250 * time.Millisecond
	// resumeIn is how soon a pause expires when a route is resumed. When a pause expires, the
	// server immediately delivers waiting jobs to open requests. When a pause is cancelled, it
	// delivers them only at the next heartbeat of those requests or with the next message
	// (nats-server 2.15.2).
	resumeIn = 200 * time.Millisecond
	// pausePoll is how often Pause and Resume check whether the change has taken effect.
	pausePoll = 20 * time.Millisecond
)

// Route is the queue of one route and this replica's view of it, which is usually less than a
// second old.
type Route struct {
	b       *broker.Broker
	kind    subject.Kind
	name    string
	durable string
	window  window
	backlog *backlog
	// lease is held by the replica that dispatches the route. Dispatching is safe without it (see
	// jobDispatcher.dispatch), but the lease avoids duplicate reads and gives the tenants a single
	// order. Its flag means that the route is congested: backlog jobs wait for capacity, and other
	// replicas put new jobs behind them.
	lease *fleet.Lease

	ready      atomic.Uint64 // jobs not yet delivered by the durable consumer
	inBacklog  atomic.Uint64 // jobs in the backlog
	stale      atomic.Bool   // the last read of inBacklog failed
	pause      atomic.Pointer[Pause]
	counted    atomic.Int64 // time of the last read in Unix nanoseconds; recount sets it to a new value below 1
	added      atomic.Bool  // this replica has added to the backlog since its dispatcher last looked
	refreshing atomic.Bool  // a read is in progress; other callers do not wait for it
}

// Ensure creates a durable consumer if it does not exist. It is broker.Streams.EnsureConsumer or
// RestoreConsumer.
type Ensure func(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error)

// Ensure creates the route's consumers if they do not exist, and returns the durable consumer of
// the ready jobs. The consumer of the backlog is never fetched from. Its pending count is the size
// of the backlog.
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

// Resize sets how many jobs may be ready. If readyJobs is 0, that is as many as the route starts in
// about a second. Jobs that are already ready stay ready.
func (r *Route) Resize(readyJobs int) {
	r.window.resize(readyJobs)
	r.backlog.wake()
}

// Taken records jobs whose first delivery went to this replica, so that more jobs can become ready.
func (r *Route) Taken(jobs int) {
	r.window.taken(jobs)
	r.backlog.wake()
}

// Waiting returns the number of waiting jobs, ready or in the backlog, and the number of tenants in
// the backlog. Both are up to about a second old, and tenants is 0 unless this replica dispatches
// the route. If a read fails, Waiting returns the previous counts. The stream's own limit is the
// last safeguard.
func (r *Route) Waiting(ctx context.Context) (jobs uint64, tenants int) {
	r.refresh(ctx, countInterval)
	return r.ready.Load() + r.inBacklog.Load(), r.backlog.tenants()
}

// Paused returns the route's pause as of about a second ago, or nil. While JetStream is
// unavailable, it returns the last known pause until that ends, initially nil.
func (r *Route) Paused(ctx context.Context) *Pause {
	if !r.fresh(countInterval) && r.b.Trouble() == nil {
		ctx, cancel := context.WithTimeout(ctx, pausedWithin)
		defer cancel()
		r.refresh(ctx, countInterval)
	}
	return r.lastPause()
}

// lastPause returns the last known pause, or nil if there is none or it has ended.
func (r *Route) lastPause() *Pause {
	if p := r.pause.Load(); p != nil && !p.over(time.Now()) {
		return p
	}
	return nil
}

// Pause stops deliveries of the route's jobs to all replicas. If the route is already paused, p
// replaces the pause, except for Since. Pause returns when the change has taken effect or when ctx
// ends.
func (r *Route) Pause(ctx context.Context, p Pause) error {
	if p.Until.IsZero() {
		p.Until = noEnd
	}
	info, err := r.Info(ctx)
	if err == nil {
		if old := pauseOf(info); old != nil && !old.Since.IsZero() {
			p.Since = old.Since
		}
		err = r.describe(ctx, info.Config, p)
	}
	return r.pauseUntil(ctx, p.Until, err, func(info *jetstream.ConsumerInfo) bool {
		return info.Config.PauseUntil != nil && info.Config.PauseUntil.Equal(p.Until)
	})
}

// describe stores a pause in the consumer's metadata, where it applies once the consumer is paused
// until the same time. JetStream cannot change both at once. Nor can it compare and set: a starting
// replica that configures the consumer between Info and describe loses its change.
func (r *Route) describe(ctx context.Context, c jetstream.ConsumerConfig, p Pause) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	c.Metadata = maps.Clone(c.Metadata)
	c.Metadata[subject.MetadataPause] = string(data)
	_, err = r.b.JetStream().UpdateConsumer(ctx, r.b.Names().Work(), c)
	return err
}

// Resume ends a pause. Like Pause, it returns when the change has taken effect.
func (r *Route) Resume(ctx context.Context) error {
	var until time.Time
	info, err := r.Info(ctx)
	if err == nil {
		if !info.Paused {
			return nil
		}
		until = info.TimeStamp.Add(resumeIn)
	}
	return r.pauseUntil(ctx, until, err, func(info *jetstream.ConsumerInfo) bool { return !info.Paused })
}

// pauseUntil sets the end of the pause unless err is set, and waits until done. It must check this
// itself, because a cluster answers as soon as the change is proposed.
func (r *Route) pauseUntil(ctx context.Context, until time.Time, err error, done func(*jetstream.ConsumerInfo) bool) error {
	if err == nil {
		_, err = r.b.JetStream().PauseConsumer(ctx, r.b.Names().Work(), r.durable, until)
	}
	if err != nil {
		return fmt.Errorf("pause or resume %s route %s: %w", r.kind, r.name, errors.Join(context.Cause(ctx), broker.ErrUnavailable, err))
	}
	for {
		info, err := r.Info(ctx)
		if err == nil && done(info) {
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

// fresh reports whether the last read is younger than age. If its time is in the future, the clock
// was set back, and the read is not fresh.
func (r *Route) fresh(age time.Duration) bool {
	passed := time.Since(time.Unix(0, r.counted.Load()))
	return 0 <= passed && passed < age
}

// refresh reads the route's counts and state unless they are younger than age.
func (r *Route) refresh(ctx context.Context, age time.Duration) {
	counted := r.counted.Load()
	if r.fresh(age) || !r.refreshing.CompareAndSwap(false, true) {
		return
	}
	defer r.refreshing.Store(false)
	update := r.window.beginRead()
	if info, err := r.Info(ctx); err == nil {
		r.ready.Store(info.NumPending)
		r.pause.Store(pauseOf(info))
		update(readingOf(info), time.Now())
	}
	if c, err := r.b.Consumer(ctx, r.b.Names().Wait(), r.durable); err == nil {
		r.inBacklog.Store(c.CachedInfo().NumPending)
		r.wakeFor(c.CachedInfo().NumPending)
		r.stale.Store(false)
	} else {
		r.stale.Store(true)
	}
	r.counted.CompareAndSwap(counted, time.Now().UnixNano())
}

// learn records the state of the route's durable consumers from a list of consumers, unless a newer
// read has finished. counted is the value of r.counted before the consumers were listed.
func (r *Route) learn(work, wait *jetstream.ConsumerInfo, counted int64, update func(reading, time.Time)) {
	if !r.refreshing.CompareAndSwap(false, true) {
		return
	}
	defer r.refreshing.Store(false)
	if r.counted.Load() != counted {
		return
	}
	r.ready.Store(work.NumPending)
	r.inBacklog.Store(wait.NumPending)
	r.stale.Store(false)
	r.pause.Store(pauseOf(work))
	update(readingOf(work), time.Now())
	r.counted.CompareAndSwap(counted, time.Now().UnixNano())
	r.wakeFor(wait.NumPending)
}

// wakeFor wakes the dispatcher if there is a backlog that no replica dispatches.
func (r *Route) wakeFor(waiting uint64) {
	if waiting > 0 && r.lease.Vacant(time.Now()) {
		r.backlog.wake()
	}
}

// Counts holds a route's latest counts.
type Counts struct {
	// Ready and Backlog are the numbers of waiting jobs. Tenants is the number of tenants in the
	// backlog. It is 0 unless this replica dispatches the route.
	Ready, Backlog uint64
	Tenants        int
	Pause          *Pause // nil if the route is not paused
}

// Counts returns the latest counts without asking the broker.
func (r *Route) Counts() Counts {
	return Counts{Ready: r.ready.Load(), Backlog: r.inBacklog.Load(), Tenants: r.backlog.tenants(), Pause: r.lastPause()}
}

// put records that this replica has put a job into the backlog.
func (r *Route) put() {
	r.inBacklog.Add(1)
	r.added.Store(true)
	r.backlog.wake()
}

// hasBacklog reports whether a tenant's new job must wait behind other jobs. The dispatching
// replica knows the backlog, and the other replicas rely on its claim. A tenant that is passed over
// holds up only its own jobs. If no replica dispatches the route or the index is incomplete, the
// count decides.
func (r *Route) hasBacklog(tenant string, now time.Time) bool {
	if r.lease.Held() {
		waits, all := r.backlog.waits(now)
		return waits || r.backlog.latest(tenant) > 0 || !all && r.inBacklog.Load() > 0
	}
	if _, congested, held := r.lease.Holder(now); held {
		return congested
	}
	return r.inBacklog.Load() > 0
}

// recount makes the next caller reread the counts. A read that is already in progress is not
// enough, because it may predate the change.
func (r *Route) recount() {
	for {
		if counted := r.counted.Load(); r.counted.CompareAndSwap(counted, min(counted, 0)-1) {
			break
		}
	}
	r.backlog.wake()
}
