package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/chat"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Start creates the durable consumers and starts fetching messages.
func (c *Consumer) Start(ctx context.Context) error {
	c.Log.OnPeerNotification(c.holder.HandlePeerNotification)
	c.Broker.OnReconnect(c.reconnected)
	var counted []*countedRoute
	for _, r := range c.Config.Now().Routes {
		cons, err := c.ensureRoute(ctx, r, c.durable)
		if err != nil {
			return err
		}
		counted = append(counted, c.startRoute(r, cons))
	}
	c.loops.Go(func() { c.Queue.Run(c.holder.Fetching, c.Logger) })
	c.loops.Go(c.sweeper.Run)
	c.loops.Go(func() { c.counter.countStreams(c.holder.Fetching) })
	c.loops.Go(func() { c.counter.watchOrphans(c.holder.Fetching) })
	every := shortestAckWait(c.Config.Now().Routes) / 3 // a reload cannot change AckWait
	c.extending.Go(func() { c.holder.KeepExtending(every) })
	c.loops.Go(c.holder.KeepChecking)
	inboxes, err := c.startIntake(ctx)
	c.loops.Go(func() { c.counter.countWaiting(c.holder.Fetching, counted, inboxes) })
	return err
}

func shortestAckWait(routes []config.Route) time.Duration {
	shortest := time.Minute
	for _, r := range routes {
		shortest = min(shortest, r.AckWait)
	}
	return shortest
}

// startRoute starts fetching a route's jobs and dispatching its backlog. It returns the state that
// counter keeps for the route.
func (c *Consumer) startRoute(r config.Route, cons jetstream.Consumer) *countedRoute {
	id := idOf(r)
	run := &running{route: r, appliedMaxAckPending: r.MaxInFlight, slots: newSlots(r.MaxInFlight)}
	c.running[id] = run
	metrics := c.Metrics.Route(id.kind, id.name)
	f := fetcher{
		c: c, cons: cons, free: run.slots, take: c.take(id, metrics), metrics: metrics, idle: c.idle.add(),
		restore: func(ctx context.Context) error { return c.restoreRoute(ctx, id) },
	}
	c.loops.Go(func() { f.run(c.holder.Fetching) })
	c.loops.Go(func() { c.Queue.Dispatch(c.holder.Fetching, id.kind, id.name, r.ReadyJobs, c.Logger) })
	return &countedRoute{id: id, metrics: metrics, idle: f.idle}
}

// take returns a function that starts work on a delivered job of a route.
func (c *Consumer) take(id routeID, metrics *telemetry.RouteMetrics) take {
	begin := c.videos.Runner(id.name, metrics).Take
	if id.kind == subject.Chat {
		begin = (&chat.Runner{Holder: c.holder, Config: c.Config, Routes: c.Routes, Encoder: c.Encoder, Route: id.name, Metrics: metrics}).Take
	}
	jobs := c.Queue.Route(id.kind, id.name)
	return func(m jetstream.Msg, release func()) {
		d, item, ok := c.open(m)
		switch d.Count {
		case 0: // not a delivery
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
