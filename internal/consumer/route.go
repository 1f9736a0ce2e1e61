package consumer

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

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

// ensureRoute creates or updates what a route needs in the broker: the durable consumer
// of its line, by ensure, and the one that counts those that wait behind it.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure ensure) (jetstream.Consumer, error) {
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
	return cons, c.Admission.Count(ctx, r)
}

// ensure creates or updates a durable consumer.
type ensure func(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error)

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
		c.fetchLoop(ctx, cons, run.slots, taken, metrics)
	})
	run.loops.Go(func() { c.Admission.Usher(ctx, r, c.Logger) })
	run.loops.Go(func() { c.countWaiting(ctx, id.kind, id.name, metrics) })
	c.loops.Go(func() {
		defer close(run.ended)
		run.loops.Wait()
	})
}
