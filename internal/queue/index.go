package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// reindexWait is the wait after a backlog could not be followed.
const reindexWait = time.Second

// index indexes the route's backlog from its beginning, until stop is called. It knows
// nothing of it afterwards. What was missed, where the stream was created again for example,
// is noticed by the dispatcher.
func (r *Route) index(ctx context.Context, logger *slog.Logger) (stop func(), err error) {
	var c jetstream.Consumer
	err = r.b.RetryUntilLeader(ctx, "follow the backlog of "+r.durable, func(ctx context.Context) (err error) {
		c, err = r.b.JetStream().OrderedConsumer(ctx, r.b.Names().Wait(), jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{r.b.Names().WaitRoutePattern(r.kind, r.name)}, HeadersOnly: true, InactiveThreshold: 30 * time.Second,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("follow the backlog of %s: %w", r.durable, err)
	}
	consuming, err := c.Consume(r.add, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		logger.Debug("the backlog: consumer", "route", r.name, "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("follow the backlog of %s: %w", r.durable, err)
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
		r.backlog.clear()
	}, nil
}

// add adds a job to the index.
func (r *Route) add(m jetstream.Msg) {
	n, err := r.b.Names().ParseWaitItem(m.Subject())
	if err != nil {
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	r.backlog.add(n.Tenant, meta.Sequence.Stream)
}
