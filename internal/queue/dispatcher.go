package queue

import (
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
	// slowestRead is how often a dispatcher reads how many jobs are ready: all replicas take
	// jobs. It is more often, up to fastestRead, where the window is full and jobs leave it fast.
	// congestedRead is as often as that is at least: a measured window grows by a read.
	slowestRead   = time.Second
	congestedRead = 250 * time.Millisecond
	fastestRead   = 25 * time.Millisecond
	// idleInterval is how often a replica looks for a backlog that no one dispatches, and how
	// long one goes on to dispatch after its backlog was empty.
	idleInterval = 10 * time.Second
	// lookAge is how old the count may be by which it looks: Count makes one as often.
	lookAge = 15 * time.Second
	// congestedFor is how long a route is taken to be congested after a job had to wait.
	congestedFor = 2 * time.Second
	// gatherFor is how long the next batch of jobs becomes larger at most, while the window is
	// mostly full.
	gatherFor = 25 * time.Millisecond
	// maxDispatches bounds the jobs that one dispatcher dispatches at a time, and those of a batch.
	maxDispatches = 128
	// maxReads bounds the tenants whose items are read at a time.
	maxReads = 16
	// dispatchTimeout bounds one dispatch, and the reads of a batch. A dispatch that has begun is not
	// cut by a stop.
	dispatchTimeout = 10 * time.Second
	// retryDispatch is the wait after a dispatch that failed.
	retryDispatch = time.Second
	// postponeFor is the wait of a job while the ready jobs have another item under its id, which
	// may be held for hours.
	postponeFor = 5 * time.Second
	// failingAfter is how long all dispatches fail until another replica is to try.
	failingAfter = 2 * retryDispatch
	// maxMissed is how many jobs of a tenant in a row may be gone before the first
	// that is not is looked for.
	maxMissed = 8
)

// dispatcher makes the jobs of one route's backlog ready, while its replica has the lease. Its
// fields belong to Dispatch's goroutine.
type dispatcher struct {
	q      *Queue
	route  *Route
	jobs   jobDispatcher
	index  indexing
	logger *slog.Logger

	// every is the time between two checks, and dispatched is what was made ready since the last
	// one.
	every      time.Duration
	dispatched int
	// nextLook is when a backlog is looked for that no replica dispatches.
	nextLook time.Time
	// busy is when there was a backlog last, and full when a job of it found no room.
	busy, full time.Time
	// waiting is since when there is a backlog without a pause, not counting tenants that are
	// passed over, and failed since when nothing can be dispatched; zero for not.
	waiting, failed time.Time
	unknown         unknownJobs
}

// Dispatch makes the jobs of a route's backlog ready in turn by tenant, so that
// readyJobs are ready at a time, or where that is 0, as many as the route starts in about a
// second, until ctx ends and the last dispatch is over. Route.Resize changes their number. It
// needs Run. Of the replicas that do this one does it at a time.
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
			switch { // the window may have more room than was known
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

// gather waits until the next batch is worth its reads: until half of the window is free, as far
// as is known, or an eighth of its time is over, or gatherFor.
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

// leads reports whether this replica dispatches the route, and knows its backlog. It takes
// the lease where there is a backlog and no replica has it, and begins or ends the index.
func (d *dispatcher) leads(ctx context.Context) bool {
	now := time.Now()
	// It is congested until more is known, so that the others put new jobs behind the backlog.
	if d.needed(ctx, now) && d.route.lease.Take(now, true) {
		d.busy, d.full, d.every = now, now, fastestRead
		d.waiting, d.failed, d.unknown = time.Time{}, time.Time{}, unknownJobs{patience: unknownFor}
		d.q.claims.Say(d.route.durable)
		d.logger.Info("started dispatching backlog", "kind", d.route.kind, "route", d.route.name)
	}
	if !d.route.lease.Held() {
		d.stop()
		if !d.route.lease.Vacant(now) {
			d.every = slowestRead // when the claim of another one is over shows by then
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
	if left := d.q.claims.Unheard(now); left > 0 { // one that dispatches may not have been heard yet
		d.every = left
		return false
	}
	added := r.added.Swap(false)
	switch {
	case r.lease.Expire(now):
		r.counted.Store(0)
		r.refresh(ctx, countInterval)
	case !added && r.waiting.Load() > 0: // another one may have dispatched it since it was counted
		r.refresh(ctx, countInterval)
	}
	return added || r.waiting.Load() > 0
}

// stop ends the index, and gives up the lease where it is held.
func (d *dispatcher) stop() {
	d.index.forget()
	d.q.claims.Release(d.route.durable)
}

// check reads how many jobs are ready and in the backlog, where that is due.
func (d *dispatcher) check(ctx context.Context) {
	if d.q.b.Trouble() != nil {
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
	waiting := d.route.waiting.Load()
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

// reread has leads begin the index again.
func (d *dispatcher) reread() {
	d.unknown.none()
	d.index.forget()
	d.route.backlog.wake()
}

// nextRead is when to read next: where the window is full, so that the room that other
// replicas make in it is found before all of it is free.
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

// report says how the dispatch goes, and has the other replicas told where that is news. The
// route is congested where a job found no room, and where there was a backlog all the time:
// then the others are faster than this dispatcher. Tenants that are passed over are none.
func (d *dispatcher) report(now time.Time) {
	switch waits, _ := d.route.backlog.waits(now); {
	case !waits:
		d.waiting = time.Time{}
	case d.waiting.IsZero():
		d.waiting = now
	}
	congested := now.Sub(d.full) < congestedFor || !d.waiting.IsZero() && now.Sub(d.waiting) >= congestedFor
	failing := !d.failed.IsZero() && now.Sub(d.failed) >= failingAfter
	if d.route.lease.Report(now, congested, failing) {
		d.q.claims.Say(d.route.durable)
	}
}

// fill makes jobs ready while the window has room, a batch at a time, and reports whether
// there may be more to do at once: room that was reserved for jobs that did not need it. The next
// batch is read while the jobs of the one before it are dispatched.
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
		d.failed = time.Time{} // where there is no room, another replica has none either
	case done.failed.Load() && d.failed.IsZero():
		d.failed = begin
	}
	return done.freed.Load() && !done.stop.Load() && ctx.Err() == nil
}

// nextBatch takes the jobs whose turn it is, up to most, and reserves room for them.
func (d *dispatcher) nextBatch(most int) (batch []turn) {
	now := time.Now()
	d.report(now)
	for len(batch) < most {
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

// read reads a batch. A stop does not cut it: its jobs are dispatched.
func (d *dispatcher) read(ctx context.Context, batch []turn) []candidate {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), dispatchTimeout, errors.New("the reads of a batch timed out"))
	defer cancel()
	return d.jobs.read(ctx, batch)
}

// congested notes that a job found no room in the window. How fast others make room is not
// known when the first one does not.
func (d *dispatcher) congested(now time.Time) {
	if now.Sub(d.full) > congestedFor {
		d.every = fastestRead
	}
	d.full = now
}

// outcomes are what became of the jobs that a fill has dispatched.
type outcomes struct {
	dispatched                    atomic.Int64
	freed, stop, failed, outdated atomic.Bool
}

func (o *outcomes) add(v verdict, err error) {
	switch v {
	case enqueued:
		o.dispatched.Add(1)
	case gone, blocked:
		o.freed.Store(true)
	case failed:
		o.stop.Store(true)
		switch {
		case errors.Is(err, errOutdated):
			o.outdated.Store(true)
		case !errors.Is(err, errFull): // which another replica would find too
			o.failed.Store(true)
		}
	case later:
	}
}

// dispatch dispatches one job and updates the backlog with what became of it.
func (d *dispatcher) dispatch(ctx context.Context, j candidate) (verdict, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), dispatchTimeout, errors.New("the dispatch timed out"))
	defer cancel()
	backlog := d.route.backlog
	if d.route.kind == subject.Video {
		err := d.q.letters.Check(ctx, j.tenant)
		if errcode.CodeOf(err) == errcode.DeadLettersFull && d.jobs.toSubmit(ctx, j) {
			backlog.passOver(j.turn, quota.LettersEvery)
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
	case v == gone:
		if backlog.miss(j.turn) {
			d.skip(ctx, j.tenant)
		}
	default:
		backlog.hit(j.turn)
	}
	return v, err
}

// skip drops what is known of a tenant's jobs that others have dispatched.
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
		d.route.backlog.forget(tenant, m.Seq)
	case errors.Is(err, broker.ErrNoMessage):
		d.route.backlog.forget(tenant, latest+1)
	}
}
