package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// running is a route at work in this process.
type running struct {
	route config.Route
	// told is the max_in_flight that the broker was last told; 0 where it may or may not
	// have heard of another one.
	told  int
	slots *slots
	stop  context.CancelCauseFunc // ends what loops counts
	loops sync.WaitGroup
	// fetched is closed when nothing is fetched any more, and ended when all loops are over.
	fetched, ended chan struct{}
}

// ensureRoute makes sure of what a route needs in the broker, by ensure: the durable
// consumer of its line, and the one that counts those that wait behind it.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure admission.Ensure) (jetstream.Consumer, error) {
	kind := subject.Kind(r.Kind)
	cons, err := ensure(ctx, c.Broker.Names().Work(), jetstream.ConsumerConfig{
		Durable:       subject.WorkDurable(kind, r.Name),
		FilterSubject: c.Broker.Names().WorkRoutePattern(kind, r.Name),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       r.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: r.MaxInFlight,
	})
	if err != nil {
		return nil, err
	}
	return cons, c.Admission.Count(ctx, r, ensure)
}

// restoreWithin bounds one try to make again what was deleted in the broker.
const restoreWithin = 10 * time.Second

// restoreRoute makes again what a route needs in the broker, where that was deleted. It
// changes nothing that is there.
func (c *Consumer) restoreRoute(ctx context.Context, id routeID) error {
	r, ok := c.route(id)
	if !ok {
		return nil // removed meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	_, err := c.ensureRoute(ctx, r, c.Broker.RestoreConsumer)
	return err
}

// route is a route as it is configured now.
func (c *Consumer) route(id routeID) (config.Route, bool) {
	for _, r := range c.Config.Now().Routes {
		if idOf(r) == id {
			return r, true
		}
	}
	return config.Route{}, false
}

// startRoute begins to fetch from a route's consumer, to bring those that wait into its
// line, and to count them.
func (c *Consumer) startRoute(r config.Route, cons jetstream.Consumer) {
	id := idOf(r)
	run := &running{route: r, told: r.MaxInFlight, slots: newSlots(r.MaxInFlight), fetched: make(chan struct{}), ended: make(chan struct{})}
	ctx, stop := context.WithCancelCause(c.fetching)
	run.stop = stop
	c.running[id] = run
	metrics, begin := c.Metrics.Route(id.kind, id.name), c.takeVideo
	if id.kind == subject.Chat {
		begin = c.takeChat
	}
	take := begin(id)
	taken := func(m jetstream.Msg, release func()) {
		switch meta, err := m.Metadata(); {
		case err != nil: // take says so
		case meta.NumDelivered == 1:
			c.Admission.Taken(id.kind, id.name, 1)
		default:
			metrics.Redelivered()
		}
		take(m, release)
	}
	run.loops.Go(func() {
		defer close(run.fetched)
		c.fetchLoop(ctx, cons, run.slots, taken, metrics, func(ctx context.Context) error { return c.restoreRoute(ctx, id) })
	})
	run.loops.Go(func() { c.Admission.Usher(ctx, r, c.Logger) })
	run.loops.Go(func() { c.countWaiting(ctx, id, metrics) })
	c.loops.Go(func() {
		defer close(run.ended)
		run.loops.Wait()
	})
}
