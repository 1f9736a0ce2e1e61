package rescue

import (
	"context"
	"fmt"
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// An orphan is an accepted job whose route is not configured. It is left alone: a replica
// of another configuration may work on it, and no replica can be asked whether it lives.
// Orphans are counted and logged, and an operator moves or ends them (docs/adr/0015).

// orphansEvery is how often orphans are counted.
const orphansEvery = time.Minute

// Orphans counts orphans, and settles them for an operator.
type Orphans struct {
	Holder *hold.Holder
	Routes *routes.Table
}

// Watch counts the orphans until no more work is taken. The first look may come before this
// replica knows all that waits, so the second one follows soon.
func (o *Orphans) Watch(soon time.Duration) {
	var said []queue.OrphanedRoute
	for rest := soon; ; rest = orphansEvery {
		found, err := o.Holder.Queue.Orphans(o.Holder.Fetching)
		switch {
		case err == nil:
			o.count(found, said)
			said = found
		case o.Holder.Fetching.Err() == nil:
			o.Holder.Logger.Warn("jobs without a route could not be counted; this is repeated", telemetry.KeyError, err)
		}
		if broker.Wait(o.Holder.Fetching, rest) != nil {
			return
		}
	}
}

// count sets the metric, and logs what differs from what was said.
func (o *Orphans) count(found, said []queue.OrphanedRoute) {
	counts := make([]telemetry.OrphanedJobs, len(found))
	text := make([]string, len(found))
	for i, r := range found {
		counts[i] = telemetry.OrphanedJobs{Kind: r.Kind, Route: r.Name, Jobs: r.Ready + r.Waiting}
		text[i] = fmt.Sprintf("%s %s: %d", r.Kind, r.Name, counts[i].Jobs)
	}
	o.Holder.Metrics.Orphaned(counts)
	same := slices.EqualFunc(found, said, func(a, b queue.OrphanedRoute) bool {
		return a.Kind == b.Kind && a.Name == b.Name && a.Ready+a.Waiting == b.Ready+b.Waiting
	})
	switch {
	case same:
	case len(found) == 0:
		o.Holder.Logger.Info("all routes that have jobs are configured again")
	default:
		o.Holder.Logger.Warn("jobs of routes that are not configured are left alone; configure the routes, or see operator orphans", "routes", text)
	}
}

// MaxPage is how many jobs one call settles.
const MaxPage = 100

// Settle moves jobs of a route that is not configured to one that is, or ends
// them where to is nil, from where token says: "" for the first, or what the call before
// returned. It assumes that no replica serves the route. What cannot be done to one job
// leaves that job where it is.
func (o *Orphans) Settle(ctx context.Context, kind subject.Kind, name string, to *config.Route, token string) (*genbusv1.OrphansSettled, error) {
	items, next, err := o.Holder.Queue.Route(kind, name).Page(ctx, token, MaxPage)
	if err != nil {
		return nil, err
	}
	s := &settlement{holder: o.Holder, routes: o.Routes, from: name, to: to, out: &genbusv1.OrphansSettled{NextPageToken: next}}
	for _, orphan := range items {
		if err := s.settle(ctx, orphan); err != nil {
			return nil, err
		}
	}
	return s.out, s.settleErased(ctx)
}
