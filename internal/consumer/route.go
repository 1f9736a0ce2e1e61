package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// ensureRoute creates a route's durable consumers in the broker, by ensure.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure queue.Ensure) (jetstream.Consumer, error) {
	return c.Queue.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, ensure)
}

// restoreWithin bounds one attempt to recreate deleted consumers.
const restoreWithin = 10 * time.Second

// restoreRoute recreates missing durable consumers of a configured route, and changes no existing
// one.
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
