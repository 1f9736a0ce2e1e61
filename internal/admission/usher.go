package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

// The mechanism of fairness (docs/adr/0004): a route's consumer takes jobs in the
// order in which they stand in its line. So that a tenant with very many jobs does
// not make the others wait, the line is short. When it is full, a job is accepted
// into GENBUS_WAIT instead, and the ushers, one in each replica, bring those that
// wait into the line in turn by tenant.

const (
	// usherEvery is how often an usher looks although nothing happened here: other
	// replicas take jobs out of the line too.
	usherEvery = time.Second
	// idleLook is how often it looks when it knows of nobody that waits.
	idleLook = 10 * time.Second
	// movers bounds the jobs that one usher moves at a time.
	movers = 8
	// moveTimeout bounds one move. What was begun is not cut by a stop.
	moveTimeout = 10 * time.Second
	// moveAgain is the wait after a move that failed.
	moveAgain = time.Second
	// manyMissed is how many jobs of a tenant in a row may be gone before the first
	// that is not is looked for.
	manyMissed = 8
)

// usher is that of one route.
type usher struct {
	*Admission
	logger *slog.Logger
	kind   subject.Kind
	route  string
	room   *waitingRoute
	count  *count
	// unknown counts the looks in a row that found jobs waiting of which nothing is
	// known, and nextLook is when the next is due while nobody waits.
	unknown  int
	nextLook time.Time
}

// Follow hears of the jobs that wait, and records those that were accepted without a
// record, until ctx ends. The ushers of the routes need it.
func (a *Admission) Follow(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	group.Go(func() { a.keepFollowing(ctx, logger) })
	group.Go(func() { a.recordAccepted(ctx, logger) })
	group.Wait()
}

// Usher brings the jobs that wait for a route into its line, which has as many places
// as the route says, until ctx ends and the last move is over. Widen changes that.
func (a *Admission) Usher(ctx context.Context, r config.Route, logger *slog.Logger) {
	a.Widen(r)
	kind := subject.Kind(r.Kind)
	u := &usher{
		Admission: a, logger: logger, kind: kind, route: r.Name, room: a.waiting.route(kind, r.Name),
		count: a.queues.count(subject.WorkDurable(kind, r.Name)),
	}
	u.run(ctx)
}

// Widen gives the line of a route as many places as the route says. Who stands there
// beyond that stays.
func (a *Admission) Widen(r config.Route) {
	kind := subject.Kind(r.Kind)
	a.queues.count(subject.WorkDurable(kind, r.Name)).line.widen(r.ReadyJobs)
	a.waiting.route(kind, r.Name).ring()
}

// Ensure makes sure of a durable consumer: broker.EnsureConsumer or RestoreConsumer.
type Ensure func(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error)

// Count makes the durable consumer, by ensure, whose pending count says how many jobs wait
// for a route. Nobody ever fetches from it.
func (a *Admission) Count(ctx context.Context, r config.Route, ensure Ensure) error {
	kind := subject.Kind(r.Kind)
	_, err := ensure(ctx, a.b.Names().Wait(), jetstream.ConsumerConfig{
		Durable:       subject.WorkDurable(kind, r.Name),
		Description:   "counts; never fetched from",
		FilterSubject: a.b.Names().WaitRoutePattern(kind, r.Name),
		AckPolicy:     jetstream.AckNonePolicy,
		HeadersOnly:   true,
	})
	return err
}

// keepFollowing hears of what waits until ctx ends, and from its beginning again
// when something of it was missed: the stream was made anew, say.
func (a *Admission) keepFollowing(ctx context.Context, logger *slog.Logger) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		done, err := a.waiting.follow(following, a.b, logger)
		if err != nil {
			stop()
			logger.Warn("what waits cannot be followed", "error", err)
			_ = broker.Wait(ctx, usherEvery) // the loop looks at ctx
			continue
		}
		select {
		case <-ctx.Done():
		case <-a.waiting.again:
		}
		stop()
		<-done
	}
}

func (u *usher) run(ctx context.Context) {
	ticker := time.NewTicker(usherEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-u.room.signal:
			if u.room.tenants() > 0 { // the line may have more places than was known
				u.queues.look(ctx, u.kind, u.route)
			}
		case now := <-ticker.C:
			u.look(ctx, now)
		}
		for u.fill(ctx) {
		}
	}
}

// look reads how long the line is, and makes sure that who waits is known.
func (u *usher) look(ctx context.Context, now time.Time) {
	if u.b.Trouble() != nil || u.room.tenants() == 0 && u.unknown == 0 && now.Before(u.nextLook) {
		return
	}
	u.nextLook = now.Add(idleLook)
	behind := u.queues.look(ctx, u.kind, u.route).behind.Load()
	if behind == 0 || u.room.tenants() > 0 {
		u.unknown = 0
		return
	}
	// One such look may be of a job on its way to us.
	if u.unknown++; u.unknown < 3 {
		return
	}
	u.unknown = 0
	u.logger.Warn("jobs wait of which nothing was heard; reading them all again", "route", u.route, "jobs", behind)
	select {
	case u.waiting.again <- struct{}{}:
	default:
	}
}

// fill brings jobs into the line while it has places, and reports whether there may
// be more to do at once: places that were kept for jobs that were gone.
func (u *usher) fill(ctx context.Context) (more bool) {
	var group sync.WaitGroup
	var again, stop atomic.Bool
	places := make(chan struct{}, movers)
	for ctx.Err() == nil && !stop.Load() && u.count.line.reserve() {
		t, ok := u.room.next(time.Now())
		if !ok {
			u.count.line.settle(false)
			break
		}
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			v := u.take(ctx, t)
			u.count.line.settle(v == stands)
			switch v {
			case gone:
				again.Store(true)
			case failed:
				stop.Store(true)
			case later, stands:
			}
		})
	}
	group.Wait()
	return again.Load() && !stop.Load() && ctx.Err() == nil
}

// take moves one job and sees to what became of it.
func (u *usher) take(ctx context.Context, t turn) verdict {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), moveTimeout, errors.New("the move timed out"))
	defer cancel()
	if u.kind == subject.Video {
		err := u.letters.check(ctx, t.tenant)
		if fault.CodeOf(err) == fault.DeadLettersFull && u.toSubmit(ctx, t) {
			u.room.putBack(t, lettersEvery)
			return later
		}
	}
	v, err := u.move(ctx, t)
	switch {
	case err != nil:
		u.logger.Debug("a job could not be brought into the line", "route", u.route, "sequence", t.seq, "error", err)
		u.room.putBack(t, moveAgain)
	case v == gone && u.room.miss(t) >= manyMissed:
		u.skip(ctx, t.tenant)
	case v != gone:
		u.room.hit(t)
	}
	return v
}

// skip drops what is known of a tenant's jobs that others have moved.
func (u *usher) skip(ctx context.Context, tenant string) {
	latest := u.room.latest(tenant)
	m, err := u.b.Next(ctx, u.b.Names().Wait(), u.b.Names().WaitTenantPattern(u.kind, u.route, tenant), 1)
	switch {
	case err == nil:
		u.room.forget(tenant, m.Seq)
	case errors.Is(err, broker.ErrNoMessage):
		u.room.forget(tenant, latest+1)
	}
}

// placeFor is the subject of a new job's item: in line, while it has a place and
// nobody waits, and else among those that wait. settle is to be called with whether
// the item may stand there.
func (a *Admission) placeFor(r Request, c Checked) (subj string, settle func(stands bool)) {
	durable := subject.WorkDurable(r.Kind, c.Route.Name)
	line := &a.queues.count(durable).line
	if r.Attached != nil { // it had its turn, and submits nothing; its letter waits for it
		return a.b.Names().WorkItem(r.Kind, c.Route.Name, r.Tenant, c.ID), func(bool) {}
	}
	if a.waiting.route(r.Kind, c.Route.Name).tenants() == 0 && line.reserve() {
		return a.b.Names().WorkItem(r.Kind, c.Route.Name, r.Tenant, c.ID), line.settle
	}
	return a.b.Names().WaitItem(r.Kind, c.Route.Name, r.Tenant, c.ID), func(bool) {}
}

// Taken counts jobs that this replica took out of a route's line for the first
// time, so that others may come into it.
func (a *Admission) Taken(kind subject.Kind, route string, jobs int) {
	a.queues.count(subject.WorkDurable(kind, route)).line.taken(jobs)
	a.waiting.route(kind, route).ring()
}

// Waiting is the number of jobs that wait for a route, in line and behind it, as of
// about a second ago, and that of the tenants behind it.
func (a *Admission) Waiting(ctx context.Context, kind subject.Kind, route string) (jobs uint64, tenants int) {
	return a.queues.waiting(ctx, kind, route), a.waiting.route(kind, route).tenants()
}
