package consumer

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/config"
)

// Plan is a prepared reload. Applying it cannot fail.
type Plan struct {
	c       *Consumer
	changed []config.Route
}

// askWithin bounds the time for all broker requests of Prepare.
const askWithin = 20 * time.Second

// Prepare applies changed max_in_flight values in the broker. next must have the same routes as the
// current configuration. If the broker does not apply a value, Prepare returns an error, leaves
// this process unchanged and spends up to revertWithin restoring the old values. The next reload or
// start corrects values that could not be restored. ctx should end when the process starts to stop,
// so that shutdown does not wait for the broker. Call Prepare only between Start and Drain, and not
// concurrently.
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

// revert tries to restore the broker's values after a failed reload. It may fail too, because the
// broker may have caused the failure. It does nothing during shutdown, because the next start
// applies the configured values.
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

// applyMaxAckPending updates a route's consumers in the broker to match r. Unlike startup with an
// embedded server, it does not shorten AckWait, because this process holds the messages.
func (c *Consumer) applyMaxAckPending(ctx context.Context, run *running, r config.Route) error {
	run.appliedMaxAckPending = 0
	_, err := c.ensureRoute(ctx, r, c.Broker.Streams().EnsureConsumer)
	if err == nil {
		run.appliedMaxAckPending = r.MaxInFlight
	}
	return err
}

// Apply puts the plan into effect. It first calls swap, which must replace the configuration and
// routes of the whole process.
func (p *Plan) Apply(swap func()) {
	swap()
	for _, r := range p.changed {
		run := p.c.running[idOf(r)]
		run.route = r
		run.slots.resize(r.MaxInFlight)
		p.c.Queue.Route(idOf(r).kind, r.Name).Resize(r.ReadyJobs)
	}
}
