package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/telemetry"
)

// countWaiting counts the jobs that wait for a route, at once and from then on, until
// ctx ends. What cannot be read stays as it was. What the
// route needs in the broker is made again where it was deleted: a replica without a free
// slot fetches nothing that would tell it.
func (c *Consumer) countWaiting(ctx context.Context, id routeID, metrics *telemetry.RouteMetrics) {
	var drain drainReport
	jobs := c.Queue.Route(id.kind, id.name)
	for {
		if err := c.restoreRoute(ctx, id); err != nil && ctx.Err() == nil {
			c.Logger.Warn("what a route needs in the broker could not be made sure of; this is repeated", "kind", id.kind, "route", id.name, "error", err)
		}
		metrics.Waiting(jobs.Waiting(ctx))
		switch oldest, err := jobs.Oldest(ctx); {
		case err != nil:
		case oldest.IsZero():
			metrics.Oldest(0)
		default:
			metrics.Oldest(time.Since(oldest))
		}
		c.countDraining(ctx, id, &drain)
		if broker.Wait(ctx, c.countEvery) != nil {
			return
		}
	}
}

// drainReport is what the log was last told of a draining route.
type drainReport struct {
	at   time.Time // zero: nothing since the route began to drain
	left uint64
}

// drainEvery is the least time between two lines of the log about a route that drains.
const drainEvery = time.Minute

// countDraining says how many jobs a draining route has left, and once that it has none.
func (c *Consumer) countDraining(ctx context.Context, id routeID, said *drainReport) {
	if !c.route(id).Draining {
		c.Metrics.NotDraining(id.kind, id.name)
		*said = drainReport{}
		return
	}
	jobs := c.Queue.Route(id.kind, id.name)
	info, err := jobs.Info(ctx)
	if err != nil {
		return
	}
	waiting, _ := jobs.Waiting(ctx)
	left := waiting + uint64(info.NumAckPending)
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
