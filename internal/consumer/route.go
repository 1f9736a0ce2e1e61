package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// ensureRoute calls ensure for a route's durable consumers and returns the one for ready jobs.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure queue.Ensure) (jetstream.Consumer, error) {
	return c.Queue.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, ensure)
}

// restoreWithin bounds the time of one attempt to recreate deleted consumers.
const restoreWithin = 10 * time.Second

// restoreRoute recreates a configured route's missing durable consumers. It does not change
// existing ones.
func (c *Consumer) restoreRoute(ctx context.Context, id routeID) error {
	r, ok := c.Config.Now().RouteNamed(string(id.kind), id.name)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, restoreWithin)
	defer cancel()
	_, err := c.ensureRoute(ctx, r, c.Broker.Streams().RestoreConsumer)
	return err
}
