// Package queue stores accepted jobs until a consumer takes them. It enqueues, dispatches, counts
// and removes jobs. It is the only code that writes to GENBUS_WORK and GENBUS_WAIT or deletes from
// them, except that consumers ack the messages delivered to them. Package admission decides which
// requests are accepted.
//
// A job is ready if its item is in GENBUS_WORK, from which the route's durable consumer delivers
// jobs in stream order. Only a few jobs are ready at a time, so that a tenant with many jobs does
// not hold up the others. The rest form the backlog in GENBUS_WAIT. A dispatcher makes them ready,
// taking the tenants in turn (ADR 4). Only one replica at a time dispatches a route
// (ADR 17).
package queue

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

// Queue holds the accepted jobs of all routes. It is safe for concurrent use.
type Queue struct {
	// Items gives access to the stored work items.
	Items       Items
	cfg         *config.Live
	b           *broker.Broker
	log         *joblog.Log
	deadLetters *quota.DeadLetterQuota
	pending     *pendingFirstEvents

	claims *fleet.Claims // by name of the durable consumer

	mu     sync.Mutex
	routes map[string]*Route // by name of the durable consumer
	noList time.Time         // earliest time to list consumers again

	orphans atomic.Pointer[[]OrphanedRoute] // latest result of Orphans; nil if none
}

// New returns a queue. Jobs leave the backlog only while Run and the route's Dispatch are running.
func New(cfg *config.Live, b *broker.Broker, log *joblog.Log, letters *quota.DeadLetterQuota) *Queue {
	items := Items{b: b, log: log}
	q := &Queue{
		Items: items, cfg: cfg, b: b, log: log, deadLetters: letters, pending: newPendingFirstEvents(items), routes: map[string]*Route{},
	}
	q.claims = fleet.NewClaims(fleet.ClaimsOptions{
		Conn: b.Conn(), Subject: b.Names().Dispatch(), Self: log.Writer(), All: q.leases, Lease: q.lease, Changed: q.changed,
	})
	return q
}

// Run exchanges dispatch claims with other replicas and logs the jobs passed to LogLater, until ctx
// ends.
func (q *Queue) Run(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	group.Go(func() { q.claims.Run(ctx, logger) })
	group.Go(func() { q.pending.run(ctx, logger) })
	group.Wait()
}

// LogLater makes Run write the first event of an accepted job once the log answers again.
func (q *Queue) LogLater(n subject.JobName) { q.pending.add(n) }

// Route returns the queue of a route, whether or not the route is configured.
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

func (q *Queue) all() []*Route {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Values(q.routes))
}

func (q *Queue) leases() map[string]*fleet.Lease {
	leases := map[string]*fleet.Lease{}
	for _, r := range q.all() {
		leases[r.durable] = r.lease
	}
	return leases
}

// lease returns the lease of a route, or nil if this process has not used the route.
func (q *Queue) lease(durable string) *fleet.Lease {
	if r := q.known(durable); r != nil {
		return r.lease
	}
	return nil
}

// changed wakes the dispatcher of a route when another replica starts or stops dispatching it.
func (q *Queue) changed(durable string) {
	if r := q.known(durable); r != nil {
		r.backlog.wake()
	}
}

// known returns a route by the name of its durable consumer, or nil if this process has not used
// it.
func (q *Queue) known(durable string) *Route {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.routes[durable]
}

// window returns a route's initial ready window, which assumes that all slots are free.
func (q *Queue) window(kind subject.Kind, name string) window {
	r, _ := q.cfg.Now().RouteNamed(string(kind), name)
	return window{fixed: r.ReadyJobs, free: r.MaxInFlight}
}
