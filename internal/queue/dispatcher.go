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
	slowestRead = time.Second
	fastestRead = 50 * time.Millisecond
	// idleInterval is how often a replica looks for a backlog that no one dispatches, and how
	// long one goes on to dispatch after its backlog was empty.
	idleInterval = 10 * time.Second
	// lookAge is how old the count may be by which it looks: mostly Count has just made one.
	lookAge = 15 * time.Second
	// congestedFor is how long a route is taken to be congested after a job had to wait.
	congestedFor = 2 * time.Second
	// maxMoves bounds the jobs that one dispatcher moves at a time.
	maxMoves = 8
	// moveTimeout bounds one move. A move that has begun is not cut by a stop.
	moveTimeout = 10 * time.Second
	// retryMove is the wait after a move that failed.
	retryMove = time.Second
	// failingAfter is how long all moves fail until another replica is to try.
	failingAfter = 2 * retryMove
	// maxMissed is how many jobs of a tenant in a row may be gone before the first
	// that is not is looked for.
	maxMissed = 8
)

// dispatcher makes the jobs of one route's backlog ready, while its replica has the lease.
type dispatcher struct {
	q      *Queue
	route  *Route
	mover  mover
	logger *slog.Logger

	// read is the time between two reads of what is ready, and moved is what was made ready
	// since the last one.
	read  time.Duration
	moved int
	// stopIndex ends the index of the backlog; nil while there is none. indexNext is when
	// one may be begun after that failed.
	stopIndex func()
	indexNext time.Time
	// unknown counts the checks in a row that found a backlog of which nothing is known.
	unknown int
	// nextLook is when a backlog is looked for that no replica dispatches.
	nextLook time.Time
	// busy is when there was a backlog last, full when a job of it found no room, and
	// failed since when each move has failed; zero where the last has not.
	busy, full, failed time.Time
}

// Dispatch makes the jobs of a route's backlog ready in turn by tenant, so that
// readyJobs are ready at a time, until ctx ends and the last move is over. Route.Resize
// changes their number. It needs Run. Of the replicas that do this one does it at a time.
func (q *Queue) Dispatch(ctx context.Context, kind subject.Kind, name string, readyJobs int, logger *slog.Logger) {
	r := q.Route(kind, name)
	r.Resize(readyJobs)
	d := &dispatcher{q: q, route: r, mover: mover{q: q, route: r}, logger: logger, read: slowestRead}
	defer d.stop()
	timer := time.NewTimer(d.read)
	defer timer.Stop()
	for armed := d.read; ; {
		if d.read < armed {
			timer.Reset(d.read)
			armed = d.read
		}
		select {
		case <-ctx.Done():
			return
		case <-r.backlog.signal:
			if r.backlog.tenants() > 0 { // the window may have more room than was known
				r.refresh(ctx, countInterval)
			}
		case <-timer.C:
			d.check(ctx)
			timer.Reset(d.read)
			armed = d.read
		}
		if !d.leads(ctx) {
			continue
		}
		for d.fill(ctx) {
		}
		d.report(time.Now())
	}
}

// leads reports whether this replica dispatches the route. It takes the lease where there is
// a backlog and no replica has it, and begins or ends the index.
func (d *dispatcher) leads(ctx context.Context) bool {
	now := time.Now()
	if d.needed(ctx, now) && d.route.lease.take(now) {
		d.busy, d.full, d.failed, d.unknown = now, time.Time{}, time.Time{}, 0
		d.q.claims.say(d.route)
	}
	if !d.route.lease.held() {
		d.stop()
		if vacant, _ := d.route.lease.vacant(now); !vacant {
			d.read = slowestRead // when the claim of another one is over shows by then
		}
		return false
	}
	d.read = min(d.read, slowestRead)
	if d.stopIndex == nil && !now.Before(d.indexNext) {
		stop, err := d.route.index(ctx, d.logger)
		if err != nil {
			d.indexNext = now.Add(reindexWait)
			if ctx.Err() == nil {
				d.logger.Warn("the backlog cannot be followed", "error", err)
			}
			return false
		}
		d.stopIndex = stop
	}
	return d.stopIndex != nil
}

// needed reports whether there is a backlog that no replica dispatches.
func (d *dispatcher) needed(ctx context.Context, now time.Time) bool {
	r := d.route
	added := r.added.Swap(false)
	if vacant, _ := r.lease.vacant(now); !vacant {
		return false
	}
	if !added && r.waiting.Load() > 0 { // another one may have dispatched it since it was counted
		r.refresh(ctx, countInterval)
	}
	return added || r.waiting.Load() > 0
}

// stop ends the index, and gives up the lease where it is held.
func (d *dispatcher) stop() {
	d.forget()
	if d.route.lease.release() {
		d.q.claims.release(d.route)
	}
}

// forget ends the index. It is begun again where this replica dispatches the route.
func (d *dispatcher) forget() {
	if d.stopIndex != nil {
		d.stopIndex()
		d.stopIndex = nil
	}
}

// check reads how many jobs are ready and in the backlog, where that is due.
func (d *dispatcher) check(ctx context.Context) {
	if d.q.b.Trouble() != nil {
		return
	}
	now := time.Now()
	if !d.route.lease.held() {
		vacant, expired := d.route.lease.vacant(now)
		if d.read = slowestRead; vacant {
			d.read = idleInterval
		}
		if expired || vacant && !now.Before(d.nextLook) {
			d.nextLook = now.Add(idleInterval)
			age := lookAge
			if expired {
				age = countInterval
			}
			d.route.refresh(ctx, age)
		}
		return
	}
	d.read, d.moved = d.nextRead(now), 0
	d.route.refresh(ctx, d.read/2)
	tenants, waiting := d.route.backlog.tenants(), d.route.waiting.Load()
	switch {
	case tenants > 0:
		d.busy, d.unknown = now, 0
	case waiting == 0 && now.Sub(d.busy) >= idleInterval:
		d.stop()
	case waiting == 0:
		d.unknown = 0
	default:
		d.missing(waiting)
	}
}

// nextRead is when to read next: where the window is full, so that the room that other
// replicas make in it is found before all of it is free.
func (d *dispatcher) nextRead(now time.Time) time.Duration {
	switch share := d.route.window.share(d.moved); {
	case now.Sub(d.full) > congestedFor:
		return slowestRead
	case share > 0.5:
		return max(d.read/2, fastestRead)
	case share < 0.125:
		return min(2*d.read, slowestRead)
	default:
		return d.read
	}
}

// missing reads the backlog from its beginning where jobs wait of which nothing was heard.
func (d *dispatcher) missing(waiting uint64) {
	// One such check may see a job that the index is just about to hear of.
	if d.unknown++; d.unknown < 3 {
		return
	}
	d.unknown = 0
	d.logger.Warn("jobs wait of which nothing was heard; reading them all again", "route", d.route.name, "jobs", waiting)
	d.forget()
}

// report has the other replicas told how the dispatch goes, where that has changed.
func (d *dispatcher) report(now time.Time) {
	failing := !d.failed.IsZero() && now.Sub(d.failed) >= failingAfter
	if d.route.lease.report(now.Sub(d.full) < congestedFor, failing) {
		d.q.claims.say(d.route)
	}
}

// fill makes jobs ready while the window has room, and reports whether there may be
// more to do at once: room that was reserved for jobs that were gone.
func (d *dispatcher) fill(ctx context.Context) (more bool) {
	var group sync.WaitGroup
	var done outcomes
	moves := make(chan struct{}, maxMoves)
	for ctx.Err() == nil && !done.stop.Load() {
		now := time.Now()
		if !d.route.window.reserve() {
			if d.route.backlog.tenants() > 0 {
				d.congested(now)
			}
			break
		}
		t, ok := d.route.backlog.next(now)
		if !ok {
			d.route.window.settle(false)
			break
		}
		moves <- struct{}{}
		group.Go(func() {
			defer func() { <-moves }()
			v, err := d.dispatch(ctx, t)
			d.route.window.settle(v == enqueued)
			done.add(v, err)
		})
	}
	group.Wait()
	moved := int(done.moved.Load())
	d.moved += moved
	switch {
	case moved > 0:
		d.failed = time.Time{}
	case done.failed.Load() && d.failed.IsZero():
		d.failed = time.Now()
	}
	return done.gone.Load() && !done.stop.Load() && ctx.Err() == nil
}

// congested notes that a job found no room in the window. How fast others make room is not
// known when the first one does not.
func (d *dispatcher) congested(now time.Time) {
	if now.Sub(d.full) > congestedFor {
		d.read = fastestRead
	}
	d.full = now
}

// outcomes are what became of the jobs that a fill has moved.
type outcomes struct {
	moved              atomic.Int64
	gone, stop, failed atomic.Bool
}

func (o *outcomes) add(v verdict, err error) {
	switch v {
	case enqueued:
		o.moved.Add(1)
	case gone:
		o.gone.Store(true)
	case failed:
		o.stop.Store(true)
		if !errors.Is(err, errFull) { // which another replica would find too
			o.failed.Store(true)
		}
	case later:
	}
}

// dispatch moves one job and updates the backlog with what became of it.
func (d *dispatcher) dispatch(ctx context.Context, t turn) (verdict, error) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), moveTimeout, errors.New("the move timed out"))
	defer cancel()
	backlog := d.route.backlog
	if d.route.kind == subject.Video {
		err := d.q.letters.Check(ctx, t.tenant)
		if errcode.CodeOf(err) == errcode.DeadLettersFull && d.mover.toSubmit(ctx, t) {
			backlog.putBack(t, quota.LettersEvery)
			return later, nil
		}
	}
	v, err := d.mover.move(ctx, t)
	switch {
	case err != nil:
		d.logger.Debug("a job could not be made ready", "route", d.route.name, "sequence", t.seq, "error", err)
		backlog.putBack(t, retryMove)
	case v == gone && backlog.miss(t) >= maxMissed:
		d.skip(ctx, t.tenant)
	case v != gone:
		backlog.hit(t)
	}
	return v, err
}

// skip drops what is known of a tenant's jobs that others have moved.
func (d *dispatcher) skip(ctx context.Context, tenant string) {
	latest := d.route.backlog.latest(tenant)
	names := d.q.b.Names()
	m, err := d.q.b.Next(ctx, names.Wait(), names.WaitTenantPattern(d.route.kind, d.route.name, tenant), 1)
	switch {
	case err == nil:
		d.route.backlog.forget(tenant, m.Seq)
	case errors.Is(err, broker.ErrNoMessage):
		d.route.backlog.forget(tenant, latest+1)
	}
}
