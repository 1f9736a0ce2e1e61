package consumer

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/chat"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
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
	// appliedMaxAckPending is the max_in_flight that the broker was last told; 0 where it may or may not
	// have heard of another one.
	appliedMaxAckPending int
	slots                *slots
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
	run := &running{route: r, appliedMaxAckPending: r.MaxInFlight, slots: newSlots(r.MaxInFlight)}
	c.running[id] = run
	metrics := c.Metrics.Route(id.kind, id.name)
	take := c.take(id, metrics)
	c.loops.Go(func() {
		c.fetchLoop(c.holder.Fetching, cons, run.slots, take, metrics, func(ctx context.Context) error { return c.restoreRoute(ctx, id) })
	})
	c.loops.Go(func() { c.Queue.Dispatch(c.holder.Fetching, c.Queue.Route(id.kind, id.name), r.ReadyJobs, c.Logger) })
	c.loops.Go(func() { c.countWaiting(c.holder.Fetching, id, metrics) })
}

// take begins to work on the jobs of a route.
func (c *Consumer) take(id routeID, metrics *telemetry.RouteMetrics) take {
	begin := c.videos.Runner(id.name, metrics).Take
	if id.kind == subject.Chat {
		begin = (&chat.Runner{Holder: c.holder, Config: c.Config, Routes: c.Routes, Encoder: c.Encoder, Route: id.name, Metrics: metrics}).Take
	}
	jobs := c.Queue.Route(id.kind, id.name)
	return func(m jetstream.Msg, release func()) {
		d, item, ok := c.open(m)
		switch d.Count {
		case 0: // it is no delivery
		case 1:
			jobs.Taken(1)
		default:
			metrics.Redelivered()
		}
		if !ok {
			release()
			return
		}
		begin(d, item, release)
	}
}
