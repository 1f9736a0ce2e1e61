package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
)

// errRouteRemoved is the cause of every context that ends because a reload took its
// route away.
var errRouteRemoved = errors.New("the route was removed by a reload")

// Plan is a reload that nothing can fail any more.
type Plan struct {
	c       *Consumer
	next    *config.Config
	added   []startable
	changed []config.Route
	removed []*running
}

// startable is a route that has what it needs in the broker.
type startable struct {
	config.Route
	cons jetstream.Consumer
}

// askWithin bounds what each step of a reload asks the broker for.
const askWithin = 20 * time.Second

// Prepare makes what the routes of another configuration need in the broker: the
// consumers of those that are new, and the bound of those that have another
// max_in_flight. It fails, and nothing is changed in this process, where the broker
// does not answer. Then the broker is told the old bounds again, within another
// revertWithin; what it does not hear it is told with the next reload, or the next start.
// ctx ends with the process's work: a stop waits for nothing of this. Reloads come one
// after the other, after Start and before Drain.
func (c *Consumer) Prepare(ctx context.Context, next *config.Config) (*Plan, error) {
	p := &Plan{c: c, next: next}
	kept := map[routeID]bool{}
	for _, r := range next.Routes {
		kept[idOf(r)] = true
	}
	for id, run := range c.running {
		if !kept[id] {
			p.removed = append(p.removed, run)
		}
	}
	asking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, r := range next.Routes {
		if err := p.ensure(asking, r); err != nil {
			c.revert(ctx)
			return nil, fmt.Errorf("route %s: %w", r.Name, err)
		}
	}
	return p, nil
}

// revertWithin bounds how long a reload that failed asks the broker to forget it.
const revertWithin = 5 * time.Second

// revert tells the broker the bounds that are in force, where it was told others. It is
// best effort: the broker may be why the reload failed. After a stop it is told nothing:
// the next start tells it what the file says then.
func (c *Consumer) revert(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, revertWithin)
	defer cancel()
	for _, run := range c.running {
		if run.told == run.route.MaxInFlight {
			continue
		}
		if err := c.tell(ctx, run, run.route); err != nil {
			c.Logger.Warn("the broker keeps a route's max_in_flight of a refused reload until the next reload or start",
				"kind", run.route.Kind, "route", run.route.Name, "error", err)
		}
	}
}

// tell has the broker's consumer of a route be as r asks.
func (c *Consumer) tell(ctx context.Context, run *running, r config.Route) error {
	run.told = 0
	_, err := c.ensureRoute(ctx, r, c.Broker.EnsureConsumer)
	if err == nil {
		run.told = r.MaxInFlight
	}
	return err
}

// ensure sees to one route of the next configuration. An embedded server's consumer is
// not hurried as at a start: what is held is held by this process.
func (p *Plan) ensure(ctx context.Context, r config.Route) error {
	run := p.c.running[idOf(r)]
	if run == nil {
		cons, err := p.c.ensureRoute(ctx, r, p.c.Broker.EnsureConsumer)
		p.added = append(p.added, startable{r, cons})
		return err
	}
	if run.route.MaxInFlight != r.MaxInFlight || run.route.ReadyJobs != r.ReadyJobs {
		p.changed = append(p.changed, r)
	}
	if run.told == r.MaxInFlight {
		return nil
	}
	return p.c.tell(ctx, run, r)
}

// Apply puts the plan into effect: swap replaces the configuration and the routes of
// the whole process, after the removed routes take no more jobs and before the new
// ones do. What the process holds of a removed route it gives back, as at a stop: at
// once where no call is in hand, and else when that is over; chats run to their end. It
// returns when nothing of the removed routes runs here but jobs, so that a route that comes
// back is not served twice: the last fetch is over after a second, the last move into the
// line mostly too, and after ten where the broker does not answer. No route comes back
// when ctx ends, as it does with a stop: then Drain waits for the rest.
func (p *Plan) Apply(ctx context.Context, swap func()) {
	c := p.c
	for _, run := range p.removed {
		run.stop(errRouteRemoved)
		delete(c.running, idOf(run.route))
	}
	swap()
	c.extendFor(p.next.Routes)
	for _, r := range p.changed {
		run := c.running[idOf(r)]
		run.route = r
		run.slots.resize(r.MaxInFlight)
		c.Queue.Route(idOf(r).kind, r.Name).Resize(r.ReadyJobs)
	}
	for _, r := range p.added {
		c.startRoute(r.Route, r.cons)
	}
	p.leaveRemoved(ctx)
}

// leaveRemoved gives back what is held of the removed routes, and waits for all of them
// that is no job, or until ctx ends.
func (p *Plan) leaveRemoved(ctx context.Context) {
	for _, run := range p.removed { // what is given back must not come here again
		if !closed(ctx, run.fetched) {
			return
		}
		p.c.held.drainRoute(idOf(run.route))
	}
	for _, run := range p.removed {
		if !closed(ctx, run.ended) {
			return
		}
	}
}

// closed waits until done is closed. It is false where ctx ended before.
func closed(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
