// Package queue holds the accepted jobs until a consumer takes them: it puts them in,
// dispatches them in turn by tenant, counts them and takes them out. It is the only
// code that writes to GENBUS_WORK and GENBUS_WAIT, or deletes from them; the consumer
// settles the messages that it was delivered. It decides about no request: that is
// admission's.
//
// A job is ready when its item is in GENBUS_WORK, where the route's durable consumer
// takes jobs in the order of the stream. So that a tenant with very many jobs does not
// make the others wait, few jobs are ready at a time: the others are in the backlog,
// which is GENBUS_WAIT, and a dispatcher dispatches them in turn by tenant
// (docs/adr/0004), in one replica at a time (docs/adr/0017).
package queue

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

// Queue is the accepted jobs of all routes. It is safe for concurrent use.
type Queue struct {
	// Items are what is stored.
	Items   Items
	cfg     *config.Live
	b       *broker.Broker
	log     *joblog.Log
	letters *quota.DeadLetterQuota
	pending *pendingFirstEvents

	claims *fleet.Claims // by durable

	mu     sync.Mutex
	routes map[string]*Route // by durable
	noList time.Time         // consumers are not listed for counts before
}

// New returns a queue. Its backlog is dispatched while Run and the Dispatch of each
// route do.
func New(cfg *config.Live, b *broker.Broker, log *joblog.Log, letters *quota.DeadLetterQuota) *Queue {
	items := Items{b: b, log: log}
	q := &Queue{
		Items: items, cfg: cfg, b: b, log: log, letters: letters, pending: newPendingFirstEvents(items), routes: map[string]*Route{},
	}
	q.claims = fleet.NewClaims(fleet.ClaimsOptions{
		Conn: b.Conn(), Subject: b.Names().Dispatch(), Self: log.Writer(), All: q.leases, Lease: q.lease, Changed: q.changed,
	})
	return q
}

// Run tells other replicas which routes are dispatched here and hears it of them, and logs
// the jobs of LogLater, until ctx ends.
func (q *Queue) Run(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	group.Go(func() { q.claims.Run(ctx, logger) })
	group.Go(func() { q.pending.run(ctx, logger) })
	group.Wait()
}

// LogLater has Run write the first event of an accepted job when the log answers again.
func (q *Queue) LogLater(n subject.JobName) { q.pending.add(n) }

// Route returns the queue of one route, whether or not the route is configured.
func (q *Queue) Route(kind subject.Kind, name string) *Route {
	durable := subject.WorkDurable(kind, name)
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.routes[durable]
	if r == nil {
		r = &Route{
			b: q.b, kind: kind, name: name, durable: durable, backlog: newBacklog(),
			window: q.window(kind, name), lease: fleet.NewLease(q.log.Writer()),
		}
		q.routes[durable] = r
	}
	return r
}

// all is the queues of all routes that this process has asked for.
func (q *Queue) all() []*Route {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Values(q.routes))
}

// leases is those of all routes that this process has asked for, by their durables.
func (q *Queue) leases() map[string]*fleet.Lease {
	leases := map[string]*fleet.Lease{}
	for _, r := range q.all() {
		leases[r.durable] = r.lease
	}
	return leases
}

// lease is that of a route by its durable; nil where this process has not asked for it.
func (q *Queue) lease(durable string) *fleet.Lease {
	if r := q.known(durable); r != nil {
		return r.lease
	}
	return nil
}

// changed has the dispatcher of a route look at it: another replica dispatches it now, or
// does so no more.
func (q *Queue) changed(durable string) {
	if r := q.known(durable); r != nil {
		r.backlog.wake()
	}
}

// known is the queue of a route by its durable; nil where this process has not asked for it.
func (q *Queue) known(durable string) *Route {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.routes[durable]
}

// window is a route's ready window before its dispatcher has begun: all places are free, as far
// as is known.
func (q *Queue) window(kind subject.Kind, name string) window {
	r, _ := q.cfg.Now().RouteNamed(string(kind), name)
	return window{fixed: r.ReadyJobs, free: r.MaxInFlight}
}
