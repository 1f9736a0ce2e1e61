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
	// dispatchInterval is how often a dispatcher checks the ready jobs although nothing
	// happened here: other replicas take jobs too.
	dispatchInterval = time.Second
	// idleInterval is how often it checks while it knows of no backlog.
	idleInterval = 10 * time.Second
	// maxMoves bounds the jobs that one dispatcher moves at a time.
	maxMoves = 8
	// moveTimeout bounds one move. A move that has begun is not cut by a stop.
	moveTimeout = 10 * time.Second
	// retryMove is the wait after a move that failed.
	retryMove = time.Second
	// maxMissed is how many jobs of a tenant in a row may be gone before the first
	// that is not is looked for.
	maxMissed = 8
)

// dispatcher makes the jobs of one route's backlog ready.
type dispatcher struct {
	q      *Queue
	route  *Route
	mover  mover
	logger *slog.Logger
	// unknown counts the checks in a row that found a backlog of which nothing is
	// known, and nextCheck is when the next is due while no backlog is known.
	unknown   int
	nextCheck time.Time
}

// Dispatch makes the jobs of a route's backlog ready in turn by tenant, so that
// readyJobs are ready at a time, until ctx ends and the last move is over. Route.Resize
// changes their number. It needs Run.
func (q *Queue) Dispatch(ctx context.Context, kind subject.Kind, name string, readyJobs int, logger *slog.Logger) {
	r := q.Route(kind, name)
	r.Resize(readyJobs)
	d := &dispatcher{q: q, route: r, mover: mover{q: q, route: r}, logger: logger}
	ticker := time.NewTicker(dispatchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.backlog.signal:
			if r.backlog.tenants() > 0 { // the window may have more room than was known
				r.refresh(ctx)
			}
		case now := <-ticker.C:
			d.check(ctx, now)
		}
		for d.fill(ctx) {
		}
	}
}

// check reads how many jobs are ready, and makes sure that the backlog is known.
func (d *dispatcher) check(ctx context.Context, now time.Time) {
	tenants := d.route.backlog.tenants
	if d.q.b.Trouble() != nil || tenants() == 0 && d.unknown == 0 && now.Before(d.nextCheck) {
		return
	}
	d.nextCheck = now.Add(idleInterval)
	d.route.refresh(ctx)
	waiting := d.route.waiting.Load()
	if waiting == 0 || tenants() > 0 {
		d.unknown = 0
		return
	}
	// One such check may see a job that the index is just about to hear of.
	if d.unknown++; d.unknown < 3 {
		return
	}
	d.unknown = 0
	d.logger.Warn("jobs wait of which nothing was heard; reading them all again", "route", d.route.name, "jobs", waiting)
	select {
	case d.q.reread <- struct{}{}:
	default:
	}
}

// fill makes jobs ready while the window has room, and reports whether there may be
// more to do at once: room that was reserved for jobs that were gone.
func (d *dispatcher) fill(ctx context.Context) (more bool) {
	var group sync.WaitGroup
	var again, stop atomic.Bool
	moves := make(chan struct{}, maxMoves)
	for ctx.Err() == nil && !stop.Load() && d.route.window.reserve() {
		t, ok := d.route.backlog.next(time.Now())
		if !ok {
			d.route.window.settle(false)
			break
		}
		moves <- struct{}{}
		group.Go(func() {
			defer func() { <-moves }()
			v := d.dispatch(ctx, t)
			d.route.window.settle(v == enqueued)
			switch v {
			case gone:
				again.Store(true)
			case failed:
				stop.Store(true)
			case later, enqueued:
			}
		})
	}
	group.Wait()
	return again.Load() && !stop.Load() && ctx.Err() == nil
}

// dispatch moves one job and updates the backlog with what became of it.
func (d *dispatcher) dispatch(ctx context.Context, t turn) verdict {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), moveTimeout, errors.New("the move timed out"))
	defer cancel()
	backlog := d.route.backlog
	if d.route.kind == subject.Video {
		err := d.q.letters.Check(ctx, t.tenant)
		if errcode.CodeOf(err) == errcode.DeadLettersFull && d.mover.toSubmit(ctx, t) {
			backlog.putBack(t, quota.LettersEvery)
			return later
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
	return v
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
