package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/config"
)

// Plan is a reload that nothing can fail any more.
type Plan struct {
	c       *Consumer
	changed []config.Route
}

// askWithin bounds what each step of a reload asks the broker for.
const askWithin = 20 * time.Second

// Prepare tells the broker the bounds of the routes that have another max_in_flight. The
// other configuration has the same routes. It fails, and nothing is changed in this
// process, where the broker does not answer. Then the broker is told the old bounds
// again, within another revertWithin; what it does not hear it is told with the next
// reload, or the next start. ctx ends with the process's work: a stop waits for nothing of
// this. Reloads come one after the other, after Start and before Drain.
func (c *Consumer) Prepare(ctx context.Context, next *config.Config) (*Plan, error) {
	p := &Plan{c: c}
	asking, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	for _, r := range next.Routes {
		run := c.running[idOf(r)]
		if run.route.MaxInFlight != r.MaxInFlight || run.route.ReadyJobs != r.ReadyJobs {
			p.changed = append(p.changed, r)
		}
		if run.appliedMaxAckPending == r.MaxInFlight {
			continue
		}
		if err := c.applyMaxAckPending(asking, run, r); err != nil {
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
		if run.appliedMaxAckPending == run.route.MaxInFlight {
			continue
		}
		if err := c.applyMaxAckPending(ctx, run, run.route); err != nil {
			c.Logger.Warn("could not restore max_in_flight after refused reload",
				"kind", run.route.Kind, "route", run.route.Name, "error", err)
		}
	}
}

// applyMaxAckPending has the broker's consumer of a route be as r asks. An embedded server's
// consumer is not hurried as at a start: what is held is held by this process.
func (c *Consumer) applyMaxAckPending(ctx context.Context, run *running, r config.Route) error {
	run.appliedMaxAckPending = 0
	_, err := c.ensureRoute(ctx, r, c.Broker.Streams().EnsureConsumer)
	if err == nil {
		run.appliedMaxAckPending = r.MaxInFlight
	}
	return err
}

// Apply puts the plan into effect: swap replaces the configuration and the routes of
// the whole process.
func (p *Plan) Apply(swap func()) {
	swap()
	for _, r := range p.changed {
		run := p.c.running[idOf(r)]
		run.route = r
		run.slots.resize(r.MaxInFlight)
		p.c.Queue.Route(idOf(r).kind, r.Name).Resize(r.ReadyJobs)
	}
}
