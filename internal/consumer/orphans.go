package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/telemetry"
)

// orphansEvery is the interval between counts of jobs on unconfigured routes.
const orphansEvery = time.Minute

// watchOrphans periodically counts the accepted jobs of unconfigured routes until ctx ends
// (ADR 15). The second count follows after c.every instead of orphansEvery, because routes
// are usually removed at a restart.
func (c *counter) watchOrphans(ctx context.Context) {
	var logged []queue.OrphanedRoute
	for rest := c.every; ; rest = orphansEvery {
		found, err := c.queue.Orphans(ctx)
		switch {
		case err == nil:
			c.countOrphans(found, logged)
			logged = found
		case ctx.Err() == nil:
			c.log.Warn("could not count jobs of unconfigured routes, retrying", telemetry.KeyError, err)
		}
		if broker.Wait(ctx, rest) != nil {
			return
		}
	}
}

// countOrphans sets the metric and logs the routes if they differ from logged.
func (c *counter) countOrphans(found, logged []queue.OrphanedRoute) {
	counts := make([]telemetry.OrphanedJobs, len(found))
	text := make([]string, len(found))
	for i, r := range found {
		counts[i] = telemetry.OrphanedJobs{Kind: r.Kind, Route: r.Name, Jobs: r.Ready + r.Backlog}
		text[i] = fmt.Sprintf("%s %s: %d", r.Kind, r.Name, counts[i].Jobs)
	}
	c.metrics.Orphaned(counts)
	same := slices.EqualFunc(found, logged, func(a, b queue.OrphanedRoute) bool {
		return a.Kind == b.Kind && a.Name == b.Name && a.Ready+a.Backlog == b.Ready+b.Backlog
	})
	switch {
	case same:
	case len(found) == 0:
		c.log.Info("found no more jobs of unconfigured routes")
	default:
		c.log.Warn("found jobs of unconfigured routes, leaving them", "routes", text)
	}
}
