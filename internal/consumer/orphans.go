package consumer

import (
	"fmt"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/telemetry"
)

// orphansEvery is how often orphans are counted.
const orphansEvery = time.Minute

// watchOrphans counts the accepted jobs whose route is not configured (docs/adr/0015) until no more work is taken. The first look may come before this
// replica knows all that waits, so the second one follows soon.
func (c *Consumer) watchOrphans(soon time.Duration) {
	var said []queue.OrphanedRoute
	for rest := soon; ; rest = orphansEvery {
		found, err := c.Queue.Orphans(c.holder.Fetching)
		switch {
		case err == nil:
			c.countOrphans(found, said)
			said = found
		case c.holder.Fetching.Err() == nil:
			c.Logger.Warn("jobs without a route could not be counted; this is repeated", telemetry.KeyError, err)
		}
		if broker.Wait(c.holder.Fetching, rest) != nil {
			return
		}
	}
}

// countOrphans sets the metric, and logs what differs from what was said.
func (c *Consumer) countOrphans(found, said []queue.OrphanedRoute) {
	counts := make([]telemetry.OrphanedJobs, len(found))
	text := make([]string, len(found))
	for i, r := range found {
		counts[i] = telemetry.OrphanedJobs{Kind: r.Kind, Route: r.Name, Jobs: r.Ready + r.Waiting}
		text[i] = fmt.Sprintf("%s %s: %d", r.Kind, r.Name, counts[i].Jobs)
	}
	c.Metrics.Orphaned(counts)
	same := slices.EqualFunc(found, said, func(a, b queue.OrphanedRoute) bool {
		return a.Kind == b.Kind && a.Name == b.Name && a.Ready+a.Waiting == b.Ready+b.Waiting
	})
	switch {
	case same:
	case len(found) == 0:
		c.Logger.Info("all routes that have jobs are configured again")
	default:
		c.Logger.Warn("jobs of routes that are not configured are left alone; configure the routes, or see operator orphans", "routes", text)
	}
}
