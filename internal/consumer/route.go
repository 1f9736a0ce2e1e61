package consumer

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// ensureRoute makes sure of what a route needs in the broker, by ensure.
func (c *Consumer) ensureRoute(ctx context.Context, r config.Route, ensure queue.Ensure) (jetstream.Consumer, error) {
	return c.Queue.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, ensure)
}

// restoreWithin bounds one try to make again what was deleted in the broker.
const restoreWithin = 10 * time.Second

// restoreRoute makes again what a route needs in the broker, where that was deleted. It
// changes nothing that is there. A route that is configured no more needs nothing.
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
