package consumer

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// countEvery is how often what stands in the broker is counted for metrics. Every
// replica does, so that the numbers outlive each of them.
const countEvery = 10 * time.Second

// countWaiting counts the jobs that wait for a route, at once and from then on, until
// ctx ends; then nobody does any more. What cannot be read stands as it was.
func (c *Consumer) countWaiting(ctx context.Context, kind subject.Kind, route string, metrics *telemetry.RouteMetrics) {
	for {
		metrics.Waiting(c.Admission.Waiting(ctx, kind, route))
		switch oldest, err := c.Admission.Oldest(ctx, kind, route); {
		case err != nil:
		case oldest.IsZero():
			metrics.Oldest(0)
		default:
			metrics.Oldest(time.Since(oldest))
		}
		if broker.Wait(ctx, countEvery) != nil {
			metrics.Waiting(0, 0)
			metrics.Oldest(0)
			return
		}
	}
}

// countStreams counts what is in each stream, at once and from then on.
func (c *Consumer) countStreams() {
	for {
		for _, s := range c.Broker.Streams() {
			c.countStream(c.fetching, s.Name)
		}
		if broker.Wait(c.fetching, countEvery) != nil {
			return
		}
	}
}

func (c *Consumer) countStream(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, broker.ReadTimeout)
	defer cancel()
	s, err := c.Broker.Stream(ctx, name)
	if err != nil {
		return
	}
	info := s.CachedInfo()
	c.Metrics.StreamState(name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.Metrics.StreamCount(name, info.State.Msgs, info.Config.MaxMsgs)
}
