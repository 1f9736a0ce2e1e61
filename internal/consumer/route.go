package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// routeID is what a route is in the broker.
type routeID struct {
	kind subject.Kind
	name string
}

func idOf(r config.Route) routeID { return routeID{subject.Kind(r.Kind), r.Name} }

// running is a route at work in this process.
type running struct {
	route config.Route
	// told is the max_in_flight that the broker was last told; 0 where it may or may not
	// have heard of another one.
	told  int
	slots *slots
}

// ensureRoute makes sure of what a route needs in the broker, by ensure.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure queue.Ensure) (jetstream.Consumer, error) {
	return c.Queue.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, ensure)
}

// restoreWithin bounds one try to make again what was deleted in the broker.
const restoreWithin = 10 * time.Second

// restoreRoute makes again what a route needs in the broker, where that was deleted. It
// changes nothing that is there.
func (c *Consumer) restoreRoute(ctx context.Context, id routeID) error {
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	_, err := c.ensureRoute(ctx, c.route(id), c.Broker.RestoreConsumer)
	return err
}

// route is a route of this process as it is configured now.
func (c *Consumer) route(id routeID) config.Route {
	routes := c.Config.Now().Routes
	return routes[slices.IndexFunc(routes, func(r config.Route) bool { return idOf(r) == id })]
}

// startRoute begins to fetch from a route's consumer, to dispatch its backlog, and to
// count the jobs that wait.
func (c *Consumer) startRoute(r config.Route, cons jetstream.Consumer) {
	id := idOf(r)
	run := &running{route: r, told: r.MaxInFlight, slots: newSlots(r.MaxInFlight)}
	c.running[id] = run
	jobs := c.Queue.Route(id.kind, id.name)
	metrics, begin := c.Metrics.Route(id.kind, id.name), c.takeVideo
	if id.kind == subject.Chat {
		begin = c.takeChat
	}
	take := begin(id)
	taken := func(m jetstream.Msg, release func()) {
		switch meta, err := m.Metadata(); {
		case err != nil: // take says so
		case meta.NumDelivered == 1:
			jobs.Taken(1)
		default:
			metrics.Redelivered()
		}
		take(m, release)
	}
	c.loops.Go(func() {
		c.fetchLoop(c.fetching, cons, run.slots, taken, metrics, func(ctx context.Context) error { return c.restoreRoute(ctx, id) })
	})
	c.loops.Go(func() { jobs.Dispatch(c.fetching, r.ReadyJobs, c.Logger) })
	c.loops.Go(func() { c.countWaiting(c.fetching, id, metrics) })
}
