package queue

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// slowestRead is the longest interval at which the dispatching replica reads the number of
	// ready jobs, which changes because all replicas take jobs. While the window is full, the
	// interval is at most congestedRead, because only a read can enlarge a measured window. If the
	// window also drains fast, the interval shrinks to as little as fastestRead.
	slowestRead   = time.Second
	congestedRead = 250 * time.Millisecond
	fastestRead   = 25 * time.Millisecond
	// idleInterval is how often a replica looks for a backlog that no replica dispatches, and how
	// long a dispatcher keeps the lease while its backlog is empty.
	idleInterval = 10 * time.Second
	// lookAge is how old the count may be when a replica looks for such a backlog. Count refreshes
	// it about as often.
	lookAge = 15 * time.Second
	// congestedFor is how long a route counts as congested after a job had to wait.
	congestedFor = 2 * time.Second
	// gatherFor bounds the wait for a larger batch while the window is mostly full.
	gatherFor = 25 * time.Millisecond
	// maxDispatches limits the concurrent dispatches of one dispatcher, and the size of a batch.
	maxDispatches = 128
	// maxReads limits the number of tenants whose items are read concurrently.
	maxReads = 16
	// dispatchTimeout bounds one dispatch, and the reads of one batch. Stopping the dispatcher does
	// not interrupt them.
	dispatchTimeout = 10 * time.Second
	// retryDispatch is how long a tenant must wait after a failed dispatch.
	retryDispatch = time.Second
	// postponeFor is how long a job is postponed if another item with its ID is ready. That item
	// may be held for hours.
	postponeFor = 5 * time.Second
	// failingAfter is how long all dispatches must have failed before another replica should take
	// over.
	failingAfter = 2 * retryDispatch
	// maxMissed is how many consecutive jobs of a tenant may be gone before the dispatcher looks up
	// the tenant's first job that still exists.
	maxMissed = 8
)

// dispatcher moves the jobs of one route from the backlog to the ready jobs while its replica holds
// the lease. Only the goroutine of Dispatch changes its fields.
type dispatcher struct {
	q      *Queue
	route  *Route
	jobs   jobDispatcher
	index  indexing
	logger *slog.Logger

	// every is the interval between checks. dispatched is the number of jobs made ready since the
	// last check.
	every      time.Duration
	dispatched int
	// nextLook is when to look again for a backlog that no replica dispatches.
	nextLook time.Time
	// busy is when a backlog last existed. full is when a job of the backlog last found no
	// capacity.
	busy, full time.Time
	// backlogSince is when the current backlog began, ignoring tenants that are passed over, or
	// zero if there is none. failed is when dispatches began to fail, or zero if they do not fail.
	backlogSince, failed time.Time
	unknown              unknownJobs
}

// Dispatch makes the jobs of a route's backlog ready, taking the tenants in turn. It returns after
// ctx has ended and the last dispatch has finished. It keeps readyJobs jobs ready, or as many as
// the route starts in about a second if readyJobs is 0. Route.Resize changes the number. Run must
// be running. Only one replica at a time dispatches the route.
func (q *Queue) Dispatch(ctx context.Context, kind subject.Kind, name string, readyJobs int, logger *slog.Logger) {
	r := q.Route(kind, name)
	r.Resize(readyJobs)
	d := &dispatcher{q: q, route: r, jobs: jobDispatcher{q: q, route: r}, index: indexing{route: r, logger: logger}, logger: logger, every: slowestRead}
	defer d.index.ending.Wait()
	defer d.stop()
	timer := time.NewTimer(d.every)
	defer timer.Stop()
	for armed := d.every; ; {
		if d.every < armed {
			timer.Reset(d.every)
			armed = d.every
		}
		select {
		case <-ctx.Done():
			return
		case <-r.backlog.signal:
			switch { // the window may have gained capacity
			case r.window.outdated():
				r.refresh(ctx, fastestRead)
			case r.backlog.tenants() > 0:
				r.refresh(ctx, countInterval)
			}
		case <-timer.C:
			d.check(ctx)
			timer.Reset(d.every)
			armed = d.every
		}
		if d.leads(ctx) {
			before := d.dispatched
			for d.fill(ctx) {
			}
			if d.dispatched > before && r.backlog.tenants() > 0 {
				d.gather(ctx)
			}
		}
		d.report(time.Now())
	}
}

// gather waits until half of the window is free, so that the next batch is worth its reads. It
// waits for at most gatherFor or an eighth of the time that a full window lasts, whichever is
// shorter.
func (d *dispatcher) gather(ctx context.Context) {
	defer d.route.backlog.wake()
	timer := time.NewTimer(min(gatherFor, d.route.window.lasts()/8))
	defer timer.Stop()
	for d.route.window.filled() > 0.5 {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-d.route.backlog.signal:
		}
	}
}

// leads reports whether this replica dispatches the route and has an index. It takes the lease if
// there is a backlog that no replica dispatches, and it starts or stops the index.
func (d *dispatcher) leads(ctx context.Context) bool {
	now := time.Now()
	// Claim congestion until more is known, so that other replicas put new jobs behind the backlog.
	if d.needed(ctx, now) && d.route.lease.Take(now, true) {
		d.busy, d.full, d.every = now, now, fastestRead
		d.backlogSince, d.failed, d.unknown = time.Time{}, time.Time{}, unknownJobs{patience: unknownFor}
		d.q.claims.Announce(d.route.durable)
		d.logger.Info("started dispatching backlog", "kind", d.route.kind, "route", d.route.name)
	}
	if !d.route.lease.Held() {
		d.stop()
		if !d.route.lease.Vacant(now) {
			d.every = slowestRead // often enough to see the other replica's claim expire
		}
		return false
	}
	d.every = min(d.every, slowestRead)
	ok, err := d.index.begin(ctx, now)
	if err != nil && d.failed.IsZero() {
		d.failed = now
	}
	if err != nil && ctx.Err() == nil {
		d.logger.Warn("could not follow backlog", "error", err)
	}
	return ok
}

// needed reports whether there is a backlog that no replica dispatches.
func (d *dispatcher) needed(ctx context.Context, now time.Time) bool {
	r := d.route
	if !r.lease.Vacant(now) {
		r.added.Store(false)
		return false
	}
	if left := d.q.claims.ListenRemaining(now); left > 0 { // a dispatching replica may not be known yet
		d.every = left
		return false
	}
	added := r.added.Swap(false)
	switch {
	case r.lease.Expire(now):
		r.counted.Store(0)
		r.refresh(ctx, countInterval)
	case !added && r.inBacklog.Load() > 0: // another replica may have dispatched the backlog since the count
		r.refresh(ctx, countInterval)
	}
	return added || r.inBacklog.Load() > 0
}

// stop stops the index and releases the lease if it is held.
func (d *dispatcher) stop() {
	d.index.clear()
	d.q.claims.Release(d.route.durable)
}

// check refreshes the numbers of ready and waiting jobs when a read is due.
func (d *dispatcher) check(ctx context.Context) {
	if cmp.Or(d.q.b.Trouble(), d.q.b.RoomForJobs()) != nil {
		return
	}
	now := time.Now()
	if !d.route.lease.Held() {
		d.every = slowestRead
		if d.route.lease.Vacant(now) {
			d.every = idleInterval
			if !now.Before(d.nextLook) {
				d.nextLook = now.Add(idleInterval)
				d.route.refresh(ctx, lookAge)
			}
		}
		return
	}
	dispatched := d.dispatched
	d.every, d.dispatched = d.nextRead(now), 0
	d.route.refresh(ctx, d.every/2)
	jobs, reads := d.route.backlog.jobs(now)
	waiting := d.route.inBacklog.Load()
	if jobs > 0 {
		d.busy = now
	}
	if jobs == 0 && waiting == 0 && now.Sub(d.busy) >= idleInterval {
		d.stop()
	}
	if jobs >= waiting || reads || d.route.stale.Load() {
		d.unknown.none()
		return
	}
	if d.unknown.overdue(now, dispatched > 0) {
		d.logger.Warn("backlog out of sync, rereading", "route", d.route.name, "waiting", waiting, "known", jobs)
		d.reread()
	}
}

func (d *dispatcher) reread() {
	d.unknown.none()
	d.index.clear()
	d.route.backlog.wake()
}

// nextRead returns the interval until the next read. While the window is full, the interval is
// short enough to detect capacity freed by other replicas before the window runs empty.
func (d *dispatcher) nextRead(now time.Time) time.Duration {
	switch share := d.route.window.share(d.dispatched); {
	case now.Sub(d.full) > congestedFor:
		return slowestRead
	case share > 0.5:
		return max(d.every/2, fastestRead)
	case share < 0.125:
		return min(2*d.every, congestedRead)
	default:
		return min(d.every, congestedRead)
	}
}

// report updates the lease and tells other replicas if the route has become congested or is no
// longer congested. The route is congested if a job recently found no capacity, or if the backlog
// has existed for congestedFor, which means that other replicas fill the window faster. Tenants
// that are passed over do not count.
func (d *dispatcher) report(now time.Time) {
	switch waits, _ := d.route.backlog.waits(now); {
	case !waits:
		d.backlogSince = time.Time{}
	case d.backlogSince.IsZero():
		d.backlogSince = now
	}
	congested := now.Sub(d.full) < congestedFor || !d.backlogSince.IsZero() && now.Sub(d.backlogSince) >= congestedFor
	failing := !d.failed.IsZero() && now.Sub(d.failed) >= failingAfter
	if d.route.lease.Report(now, congested, failing) {
		d.q.claims.Announce(d.route.durable)
	}
}

// fill makes jobs ready, batch by batch, while the window has capacity. It reads the next batch
// while the previous one is dispatched. more reports whether capacity is free again because some
// jobs did not need it.
func (d *dispatcher) fill(ctx context.Context) (more bool) {
	var group sync.WaitGroup
	var done outcomes
	dispatches := make(chan struct{}, maxDispatches)
	begin, tried := time.Now(), 0
	for ctx.Err() == nil && !done.stop.Load() {
		batch := d.nextBatch(maxDispatches)
		if len(batch) == 0 {
			break
		}
		tried += len(batch)
		for _, j := range d.read(ctx, batch) {
			dispatches <- struct{}{}
			group.Go(func() {
				defer func() { <-dispatches }()
				v, err := d.dispatch(ctx, j)
				d.route.window.done(v == enqueued)
				done.add(v, err)
			})
		}
	}
	group.Wait()
	if done.outdated.Load() {
		d.reread()
	}
	dispatched := int(done.dispatched.Load())
	d.dispatched += dispatched
	switch {
	case dispatched > 0, tried > 0 && !done.failed.Load(), tried == 0 && d.route.window.full(), d.route.backlog.tenants() == 0:
		d.failed = time.Time{} // with a full window, another replica could not dispatch either
	case done.failed.Load() && d.failed.IsZero():
		d.failed = begin
	}
	return done.freed.Load() && !done.stop.Load() && ctx.Err() == nil
}

// nextBatch removes jobs from the backlog and reserves capacity for them. limit is the maximum size
// of the batch.
func (d *dispatcher) nextBatch(limit int) (batch []turn) {
	now := time.Now()
	d.report(now)
	for len(batch) < limit {
		if !d.route.window.reserve() {
			if waits, _ := d.route.backlog.waits(now); waits {
				d.congested(now)
			}
			break
		}
		t, ok := d.route.backlog.next(now)
		if !ok {
			d.route.window.done(false)
			break
		}
		batch = append(batch, t)
	}
	return batch
}

// read reads the items of a batch. Stopping the dispatcher does not interrupt it, because the jobs
// of the batch are still dispatched.
func (d *dispatcher) read(ctx context.Context, batch []turn) []candidate {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), dispatchTimeout, errors.New("the reads of a batch timed out"))
	defer cancel()
	return d.jobs.read(ctx, batch)
}

// congested records that a job found no capacity. If the route was not congested, it also shortens
// the interval, because the rate at which other replicas free capacity is unknown.
func (d *dispatcher) congested(now time.Time) {
	if now.Sub(d.full) > congestedFor {
		d.every = fastestRead
	}
	d.full = now
}

type outcomes struct {
	dispatched                    atomic.Int64
	freed, stop, failed, outdated atomic.Bool
}

func (o *outcomes) add(v verdict, err error) {
	switch v {
	case enqueued:
		o.dispatched.Add(1)
	case obsolete, blocked:
		o.freed.Store(true)
	case failed:
		o.stop.Store(true)
		switch {
		case errors.Is(err, errOutdated):
			o.outdated.Store(true)
		case !errors.Is(err, errFull): // another replica would find it full too
			o.failed.Store(true)
		}
	case later:
	}
}

func (d *dispatcher) dispatch(ctx context.Context, j candidate) (verdict, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), dispatchTimeout, errors.New("the dispatch timed out"))
	defer cancel()
	backlog := d.route.backlog
	if d.route.kind == subject.Video {
		err := d.q.deadLetters.Check(ctx, j.tenant)
		if errcode.CodeOf(err) == errcode.DeadLettersFull && d.jobs.toSubmit(ctx, j) {
			backlog.passOver(j.turn, quota.DeadLettersEvery)
			return later, nil
		}
	}
	v, err := d.jobs.dispatch(ctx, j)
	if err != nil {
		d.logger.Debug("could not dispatch job", "route", d.route.name, "sequence", j.seq, "error", err)
	}
	switch {
	case v == blocked:
		backlog.postpone(j.turn)
	case err != nil:
		backlog.putBack(j.turn, retryDispatch)
	case v == obsolete:
		if backlog.miss(j.turn) {
			d.skip(ctx, j.tenant)
		}
	default:
		backlog.hit(j.turn)
	}
	return v, err
}

// skip removes from the index those jobs of a tenant that other replicas have dispatched.
func (d *dispatcher) skip(ctx context.Context, tenant string) {
	defer d.route.backlog.skipped(tenant)
	latest := d.route.backlog.latest(tenant)
	names := d.q.b.Names()
	s, err := d.q.b.Stream(ctx, names.Wait())
	if err != nil {
		return
	}
	latest = min(latest, s.CachedInfo().State.LastSeq) // the leader may not have stored the rest yet
	m, err := d.q.b.Next(ctx, names.Wait(), names.WaitTenantPattern(d.route.kind, d.route.name, tenant), 1)
	switch {
	case err == nil:
		d.route.backlog.remove(tenant, m.Seq)
	case errors.Is(err, broker.ErrNoMessage):
		d.route.backlog.remove(tenant, latest+1)
	}
}
