package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// An orphan is an accepted job whose route is not configured. It is left alone: a replica
// of another configuration may work on it, and no replica can be asked whether it lives.
// Orphans are counted and logged, and an operator moves or ends them (docs/adr/0015).

// orphansEvery is how often orphans are counted.
const orphansEvery = time.Minute

// watchOrphans counts the orphans until no more work is taken. The first look may come
// before this replica knows all that waits, so the second one follows soon.
func (c *Consumer) watchOrphans() {
	var said []queue.OrphanedRoute
	for rest := c.countEvery; ; rest = orphansEvery {
		found, err := c.Queue.Orphans(c.fetching)
		switch {
		case err == nil:
			c.countOrphans(found, said)
			said = found
		case c.fetching.Err() == nil:
			c.Logger.Warn("jobs without a route could not be counted; this is repeated", telemetry.KeyError, err)
		}
		if broker.Wait(c.fetching, rest) != nil {
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

// orphansAtOnce is how many jobs one call settles.
const orphansAtOnce = 100

// SettleOrphans moves jobs of a route that is not configured to one that is, or ends
// them where to is nil, from where token says: "" for the first, or what the call before
// returned. It assumes that no replica serves the route. What cannot be done to one job
// leaves that job where it is.
func (c *Consumer) SettleOrphans(ctx context.Context, kind subject.Kind, name string, to *config.Route, token string) (*genbusv1.OrphansSettled, error) {
	items, next, err := c.Queue.Route(kind, name).Page(ctx, token, orphansAtOnce)
	if err != nil {
		return nil, err
	}
	o := &orphanedRoute{Consumer: c, routeID: routeID{kind, name}, to: to, out: &genbusv1.OrphansSettled{NextPageToken: next}}
	for _, orphan := range items {
		if err := o.settle(ctx, orphan); err != nil {
			return nil, err
		}
	}
	return o.out, o.lookAgain(ctx)
}
