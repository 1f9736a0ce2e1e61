package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/telemetry"
)

// countEvery is the interval between counts for metrics. Every replica counts, so the metrics
// remain available if any replica fails.
const countEvery = 10 * time.Second

// counter counts the messages in the broker and recreates deleted consumers and streams. The fetch
// loops alone would not notice a deletion while the replica has no free slots.
type counter struct {
	config  *config.Live
	broker  *broker.Broker
	queue   *queue.Queue
	metrics *telemetry.Metrics
	log     *slog.Logger
	restore func(context.Context, routeID) error // recreates a route's consumers
	every   time.Duration
}

type countedRoute struct {
	id      routeID
	metrics *telemetry.RouteMetrics
	idle    *idlePull
	drain   drainReport
}

// countedInbox is the inbox of one kind of request.
type countedInbox struct {
	durable string
	metrics *telemetry.RouteMetrics
	idle    *idlePull
}

// countWaiting counts each route's waiting jobs and the requests in the inbox immediately and then
// periodically until ctx ends. If a read fails, the previous count remains.
func (c *counter) countWaiting(ctx context.Context, routes []*countedRoute, inboxes []*countedInbox) {
	ticker := time.NewTicker(c.every)
	defer ticker.Stop()
	for {
		c.countAll(ctx, routes, inboxes)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *counter) countAll(ctx context.Context, routes []*countedRoute, inboxes []*countedInbox) {
	uncounted, err := c.queue.Count(ctx)
	if err != nil && ctx.Err() == nil {
		c.log.Info("could not count all routes at once, counting each", telemetry.KeyError, err)
	}
	for _, r := range routes {
		if jobs := c.queue.Route(r.id.kind, r.id.name); !uncounted[jobs] {
			r.wake(jobs.Counts())
		}
	}
	for _, in := range inboxes {
		c.countInbox(ctx, in)
	}
	c.restoreEach(ctx, routes, uncounted)
	for _, r := range routes {
		c.countRoute(ctx, r)
	}
}

func (c *counter) countInbox(ctx context.Context, in *countedInbox) {
	ctx, cancel := context.WithTimeout(ctx, broker.ReadTimeout)
	defer cancel()
	cons, err := c.broker.Consumer(ctx, c.broker.Names().Requests(), in.durable)
	if err != nil {
		return
	}
	waiting := cons.CachedInfo().NumPending
	in.metrics.Waiting(waiting, 0)
	if waiting > 0 {
		in.idle.interrupt()
	}
}

// wake interrupts the route's long request if jobs are ready, because the request should already
// have received them.
func (r *countedRoute) wake(n queue.Counts) {
	if n.Ready > 0 && n.Pause == nil {
		r.idle.interrupt()
	}
}

// restoring is the maximum number of routes restored concurrently.
const restoring = 8

// restoreEach recreates the missing consumers of the uncounted routes and counts their jobs.
func (c *counter) restoreEach(ctx context.Context, routes []*countedRoute, uncounted map[*queue.Route]bool) {
	var group sync.WaitGroup
	free := make(chan struct{}, restoring)
	for _, r := range routes {
		jobs, id := c.queue.Route(r.id.kind, r.id.name), r.id
		if !uncounted[jobs] {
			continue
		}
		free <- struct{}{}
		group.Go(func() {
			defer func() { <-free }()
			if err := c.restore(ctx, id); err != nil && ctx.Err() == nil {
				c.log.Warn("could not verify the route's consumer, retrying", "kind", id.kind, "route", id.name, "error", err)
			}
			jobs.Waiting(ctx)
			r.wake(jobs.Counts())
		})
	}
	group.Wait()
}

func (c *counter) countRoute(ctx context.Context, r *countedRoute) {
	jobs := c.queue.Route(r.id.kind, r.id.name)
	n := jobs.Counts()
	r.metrics.Waiting(n.Ready+n.Backlog, n.Tenants)
	r.metrics.Paused(n.Pause != nil)
	age := time.Duration(0)
	var err error
	if n.Ready+n.Backlog > 0 {
		var oldest time.Time
		if oldest, err = jobs.Oldest(ctx); !oldest.IsZero() {
			age = time.Since(oldest)
		}
	}
	if err == nil {
		r.metrics.Oldest(age)
	}
	c.countDraining(ctx, r.id, &r.drain)
}

// drainReport is the last logged state of a draining route.
type drainReport struct {
	at        time.Time // zero if nothing has been logged since the route started draining
	remaining uint64
}

// drainEvery is the minimum interval between progress messages about a draining route.
const drainEvery = time.Minute

// countDraining logs how many jobs remain on a draining route, and logs once when none remain.
func (c *counter) countDraining(ctx context.Context, id routeID, said *drainReport) {
	if r, _ := c.config.Now().RouteNamed(string(id.kind), id.name); !r.Draining {
		c.metrics.NotDraining(id.kind, id.name)
		*said = drainReport{}
		return
	}
	jobs := c.queue.Route(id.kind, id.name)
	info, err := jobs.Info(ctx)
	if err != nil {
		return
	}
	waiting, _ := jobs.Waiting(ctx)
	left := waiting + uint64(info.NumAckPending)
	c.metrics.Draining(id.kind, id.name, left)
	switch first := said.at.IsZero(); {
	case !first && left == said.remaining, !first && left > 0 && time.Since(said.at) < drainEvery:
		return
	case left == 0:
		c.log.Info("drained route, no jobs left", "kind", id.kind, "route", id.name)
	default:
		c.log.Info("draining route", "kind", id.kind, "route", id.name, "left", left)
	}
	*said = drainReport{at: time.Now(), remaining: left}
}

// countStreams counts the messages in each stream immediately and then periodically until ctx ends.
func (c *counter) countStreams(ctx context.Context) {
	short := map[string]bool{} // streams that keep less than their max_age
	for {
		for _, s := range c.broker.Streams().Configs() {
			c.countStream(ctx, s.Name, short)
		}
		if broker.Wait(ctx, c.every) != nil {
			return
		}
	}
}

func (c *counter) countStream(ctx context.Context, name string, short map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, broker.ReadTimeout)
	defer cancel()
	c.metrics.StreamRecreations(name, c.broker.Streams().Recreated(name))
	s, err := c.broker.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = c.broker.Streams().CreateMissing(ctx)
		if err != nil {
			c.log.Error("could not recreate missing stream, retrying", "stream", name, "error", err)
		}
		return
	}
	if err != nil {
		return
	}
	info := s.CachedInfo()
	c.metrics.StreamState(name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.metrics.StreamCount(name, info.State.Msgs, info.Config.MaxMsgs)
	if !broker.DropsOld(info.Config) {
		return
	}
	history := broker.History(info)
	c.metrics.StreamHistory(name, history)
	if is := history < 1; is != short[name] {
		short[name] = is
		c.logHistory(info, history)
	}
}

// logHistory logs when a stream can no longer keep messages for its full max_age, which readers
// rely on, and when it can again.
func (c *counter) logHistory(info *jetstream.StreamInfo, history float64) {
	attrs := []any{
		"stream", info.Config.Name, "max_age", info.Config.MaxAge.String(), "bytes", info.State.Bytes, "max_bytes", info.Config.MaxBytes,
		"keeps", time.Duration(history * float64(info.Config.MaxAge)).Round(time.Second).String(),
	}
	if history < 1 {
		c.log.Warn("dropping messages before max_age, stream nearly full", attrs...)
		return
	}
	c.log.Info("keeping messages until max_age again", attrs...)
}
