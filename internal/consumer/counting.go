package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/broker"
)

const (
	// routesAtOnce is how many routes are looked at at a time.
	routesAtOnce = 16
	// lostAfter is how long a pull request has waited at least while there are messages for
	// it, when it is taken for lost.
	lostAfter = 2 * time.Second
)

// countRoutes counts the jobs that wait for each route, at once and from then on. What cannot
// be read stays as it was. What a route needs in the broker is made again where it was
// deleted: a replica without a free slot fetches nothing that would tell it.
func (c *Consumer) countRoutes() {
	ctx := c.holder.Fetching
	drains := map[routeID]*drainReport{}
	for _, r := range c.Config.Now().Routes { // a reload adds none
		drains[idOf(r)] = &drainReport{}
	}
	for {
		began := time.Now()
		err := c.Queue.Count(ctx)
		if err != nil && ctx.Err() == nil {
			c.Logger.Warn("the waiting jobs could not be counted; this is repeated", "error", err)
		}
		if c.Broker.Trouble() == nil { // where the lists failed, each route asks by itself
			var group errgroup.Group
			group.SetLimit(routesAtOnce)
			for id, drain := range drains {
				group.Go(func() error {
					c.countRoute(ctx, id, began, drain)
					return nil
				})
			}
			_ = group.Wait()
		}
		if broker.Wait(ctx, c.countEvery) != nil {
			return
		}
	}
}

// countRoute does with the counts of a route what there is to do.
func (c *Consumer) countRoute(ctx context.Context, id routeID, began time.Time, drain *drainReport) {
	jobs, metrics := c.Queue.Route(id.kind, id.name), c.Metrics.Route(id.kind, id.name)
	if jobs.Counts().At.Before(began) {
		if err := c.restoreRoute(ctx, id); err != nil {
			if ctx.Err() == nil {
				c.Logger.Warn("what a route needs in the broker could not be made sure of; this is repeated", "kind", id.kind, "route", id.name, "error", err)
			}
			return
		}
	}
	n := jobs.Counts()
	if n.Ready > 0 && !n.Paused && !n.Full {
		c.running[id].puller.interrupt(lostAfter)
	}
	waiting, tenants := jobs.Waiting(ctx)
	metrics.Waiting(waiting, tenants)
	if waiting == 0 {
		metrics.Oldest(0)
	} else if oldest, err := jobs.Oldest(ctx); err == nil && !oldest.IsZero() {
		metrics.Oldest(time.Since(oldest))
	}
	c.countDraining(id, waiting+n.Delivered, drain)
}

// drainReport is what the log was last told of a draining route.
type drainReport struct {
	at   time.Time // zero: nothing since the route began to drain
	left uint64
}

// drainEvery is the least time between two lines of the log about a route that drains.
const drainEvery = time.Minute

// countDraining says how many jobs a draining route has left, and once that it has none.
func (c *Consumer) countDraining(id routeID, left uint64, said *drainReport) {
	if !c.route(id).Draining {
		c.Metrics.NotDraining(id.kind, id.name)
		*said = drainReport{}
		return
	}
	c.Metrics.Draining(id.kind, id.name, left)
	switch first := said.at.IsZero(); {
	case !first && left == said.left, !first && left > 0 && time.Since(said.at) < drainEvery:
		return
	case left == 0:
		c.Logger.Info("a draining route has no jobs left; it can be taken out of the configuration", "kind", id.kind, "route", id.name)
	default:
		c.Logger.Info("a route is draining: it takes no new jobs", "kind", id.kind, "route", id.name, "left", left)
	}
	*said = drainReport{at: time.Now(), left: left}
}

// countStreams counts what is in each stream, at once and from then on. A stream that was
// deleted is created again.
func (c *Consumer) countStreams() {
	short := map[string]bool{} // by stream: it keeps less than its max_age
	for {
		for _, s := range c.Broker.Streams().Configs() {
			c.countStream(c.holder.Fetching, s.Name, short)
		}
		if broker.Wait(c.holder.Fetching, c.countEvery) != nil {
			return
		}
	}
}

func (c *Consumer) countStream(ctx context.Context, name string, short map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, broker.ReadTimeout)
	defer cancel()
	c.Metrics.StreamRecreations(name, c.Broker.Streams().Recreated(name))
	s, err := c.Broker.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = c.Broker.Streams().CreateMissing(ctx)
		if err != nil {
			c.Logger.Error("a stream is gone, and could not be created again; this is repeated", "stream", name, "error", err)
		}
		return
	}
	if err != nil {
		return
	}
	info := s.CachedInfo()
	c.Metrics.StreamState(name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.Metrics.StreamCount(name, info.State.Msgs, info.Config.MaxMsgs)
	if !broker.DropsOld(info.Config) {
		return
	}
	history := broker.History(info)
	c.Metrics.StreamHistory(name, history)
	if is := history < 1; is != short[name] {
		short[name] = is
		c.sayHistory(info, history)
	}
}

// sayHistory tells when a stream begins to keep less than its max_age, and when it no longer
// does: the oldest events are those that readers were promised.
func (c *Consumer) sayHistory(info *jetstream.StreamInfo, history float64) {
	attrs := []any{
		"stream", info.Config.Name, "max_age", info.Config.MaxAge.String(), "bytes", info.State.Bytes, "max_bytes", info.Config.MaxBytes,
		"keeps", time.Duration(history * float64(info.Config.MaxAge)).Round(time.Second).String(),
	}
	if history < 1 {
		c.Logger.Warn("a stream drops, or soon will, what is younger than its max_age; raise its max_bytes", attrs...)
		return
	}
	c.Logger.Info("a stream keeps what it has until its max_age again", attrs...)
}
