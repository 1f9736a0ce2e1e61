package consumer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// An orphan is an accepted job whose route is not configured any more. A replica of
// an older configuration may still work on it, and may still accept others.

// routeID is what a route is in the broker.
type routeID struct {
	kind subject.Kind
	name string
}

func idOf(r config.Route) routeID { return routeID{subject.Kind(r.Kind), r.Name} }

// checkOrphans refuses to start while there are orphans and nothing says what is to
// become of them: nobody would ever take them. Where it is said, orphans are looked
// for as long as the process takes work.
func (c *Consumer) checkOrphans(ctx context.Context) error {
	finder, err := c.findOrphans(ctx, c.Routes.Has)
	if err != nil {
		return err
	}
	if c.Config.Now().Orphans == "" {
		return finder.refuse("start with --sandbox where they are the sandbox's")
	}
	c.adopting = true
	c.loops.Go(func() { c.keepAdopting(finder) })
	return nil
}

// findOrphans looks once for the jobs of routes that there are not.
func (c *Consumer) findOrphans(ctx context.Context, has func(subject.Kind, string) bool) (*orphanFinder, error) {
	finder := newOrphanFinder(c, has)
	return finder, c.Broker.Patiently(ctx, "look for jobs without a route", finder.look)
}

// refuse says that nothing tells what is to become of what was found; nil where
// nothing was.
func (f *orphanFinder) refuse(hint string) error {
	if len(f.jobs) == 0 {
		return nil
	}
	return fmt.Errorf("accepted jobs stand on routes that are not configured: %s; configure the routes again (%s), or set orphans to %q or %q",
		f, hint, config.OrphansReroute, config.OrphansFail)
}

// String names the routes that were found, and how many jobs each had.
func (f *orphanFinder) String() string {
	var out []string
	for route, jobs := range f.jobs {
		out = append(out, fmt.Sprintf("%s route %q (%d jobs)", route.kind, route.name, jobs))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// keepAdopting looks for orphans until no more work is taken, and has each route
// that has some watched. Old replicas bring new ones for as long as they live.
func (c *Consumer) keepAdopting(finder *orphanFinder) {
	var watched sync.Map // routes, by routeID
	rest := time.Duration(0)
	for broker.Wait(c.fetching, rest) == nil {
		for route := range finder.jobs {
			if _, already := watched.LoadOrStore(route, true); !already {
				c.loops.Go(func() {
					defer watched.Delete(route)
					newOrphanWatch(c, route).run()
				})
			}
		}
		if err := finder.look(c.fetching); err != nil && c.fetching.Err() == nil {
			c.Logger.Warn("jobs without a route could not be looked for; this is repeated", "error", err)
		}
		rest = shortestAckWait(c.Config.Now().Routes) * time.Duration(finder.pages)
	}
}
