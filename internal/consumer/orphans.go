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

// orphanRoute is a route that is not configured and has, or had, jobs.
type orphanRoute struct {
	kind subject.Kind
	name string
}

// checkOrphans refuses to start while there are orphans and nothing says what is to
// become of them: nobody would ever take them. Where it is said, orphans are looked
// for as long as the process takes work.
func (c *Consumer) checkOrphans(ctx context.Context) error {
	finder := newOrphanFinder(c)
	if err := c.Broker.Patiently(ctx, "look for jobs without a route", finder.look); err != nil {
		return err
	}
	switch c.Config.Orphans {
	case config.OrphansReroute, config.OrphansFail:
		c.loops.Go(func() { c.keepAdopting(finder) })
		return nil
	}
	if len(finder.jobs) == 0 {
		return nil
	}
	return fmt.Errorf("accepted jobs stand on routes that are not configured: %s; configure the routes again (start with --sandbox where they are the sandbox's), or set orphans to %q or %q",
		finder, config.OrphansReroute, config.OrphansFail)
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
	var watched sync.Map // routes, by orphanRoute
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
		rest = c.shortestAckWait() * time.Duration(finder.pages)
	}
}
