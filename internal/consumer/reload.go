package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/config"
)

// Plan is a prepared reload, which cannot fail.
type Plan struct {
	c       *Consumer
	changed []config.Route
}

// askWithin bounds the broker requests of Prepare.
const askWithin = 20 * time.Second

// Prepare applies changed max_in_flight values in the broker. next must have the same routes. If
// the broker does not answer, Prepare fails, leaves this process unchanged and tries for up to
// revertWithin to restore the old values. The next reload or start repeats failed changes. ctx must
// end with the process's work, so that a stop waits for none of this. Reloads run one at a time,
// between Start and Drain.
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

const revertWithin = 5 * time.Second

// revert restores the broker's values after a failed reload. It is best effort: the broker may be
// why the reload failed. During a stop it does nothing, because the next start applies the file's
// values.
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

// applyMaxAckPending updates the broker's consumer of a route to r. It does not shorten AckWait, as
// a start with an embedded server does, because this process holds the messages.
func (c *Consumer) applyMaxAckPending(ctx context.Context, run *running, r config.Route) error {
	run.appliedMaxAckPending = 0
	_, err := c.ensureRoute(ctx, r, c.Broker.Streams().EnsureConsumer)
	if err == nil {
		run.appliedMaxAckPending = r.MaxInFlight
	}
	return err
}

// Apply puts the plan into effect. swap replaces the configuration and routes of the whole process.
func (p *Plan) Apply(swap func()) {
	swap()
	for _, r := range p.changed {
		run := p.c.running[idOf(r)]
		run.route = r
		run.slots.resize(r.MaxInFlight)
		p.c.Queue.Route(idOf(r).kind, r.Name).Resize(r.ReadyJobs)
	}
}
