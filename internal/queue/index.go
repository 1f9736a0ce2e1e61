package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// Run indexes the backlog, which the dispatchers need, and logs the jobs of LogLater,
// until ctx ends.
func (q *Queue) Run(ctx context.Context, logger *slog.Logger) {
	var group sync.WaitGroup
	group.Go(func() { q.followBacklog(ctx, logger) })
	group.Go(func() { q.pending.run(ctx, logger) })
	group.Wait()
}

// reindexWait is the wait after the backlog could not be followed.
const reindexWait = time.Second

// followBacklog indexes the backlog until ctx ends, and from its beginning again when
// something of it was missed: the stream was created again, for example.
func (q *Queue) followBacklog(ctx context.Context, logger *slog.Logger) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		done, err := q.indexBacklog(following, logger)
		if err != nil {
			stop()
			logger.Warn("the backlog cannot be followed", "error", err)
			_ = broker.Wait(ctx, reindexWait) // the loop looks at ctx
			continue
		}
		select {
		case <-ctx.Done():
		case <-q.reread:
		}
		stop()
		<-done
	}
}

// indexBacklog indexes all backlogs from the beginning until ctx ends. The returned
// channel is closed then.
func (q *Queue) indexBacklog(ctx context.Context, logger *slog.Logger) (<-chan struct{}, error) {
	var c jetstream.Consumer
	err := q.b.RetryUntilLeader(ctx, "follow the backlog", func(ctx context.Context) (err error) {
		c, err = q.b.JetStream().OrderedConsumer(ctx, q.b.Names().Wait(), jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{q.b.Names().WaitPattern()}, HeadersOnly: true, InactiveThreshold: 30 * time.Second,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("follow the backlog: %w", err)
	}
	consuming, err := c.Consume(q.index, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		logger.Debug("the backlog: consumer", "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("follow the backlog: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		consuming.Stop()
		<-consuming.Closed()
	}()
	return done, nil
}

// index adds a job to the backlog of its route.
func (q *Queue) index(m jetstream.Msg) {
	n, err := q.b.Names().ParseWaitItem(m.Subject())
	if err != nil {
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	q.Route(n.Kind, n.Route).backlog.add(n.Tenant, meta.Sequence.Stream)
}
