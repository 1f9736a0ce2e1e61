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

// backlog is the index of a route's backlog: what this replica knows of the jobs in
// it. One ordered consumer tells it of each, without its body. That others moved a job
// shows when it is looked for.
type backlog struct {
	signal chan struct{} // has a token when the dispatcher may have something to do

	mu         sync.Mutex
	roundRobin *roundRobin
}

func newBacklog() *backlog {
	return &backlog{signal: make(chan struct{}, 1), roundRobin: newRoundRobin()}
}

func (b *backlog) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

func (b *backlog) add(tenant string, seq uint64) {
	b.mu.Lock()
	b.roundRobin.add(tenant, seq)
	b.mu.Unlock()
	b.wake()
}

// tenants is the number of tenants in the backlog.
func (b *backlog) tenants() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.roundRobin.tenants)
}

// turn is a job whose turn it is.
type turn struct {
	tenant string
	seq    uint64
}

// next takes the job whose turn it is.
func (b *backlog) next(now time.Time) (turn, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tenant, seq, ok := b.roundRobin.next(now)
	return turn{tenant: tenant, seq: seq}, ok
}

// putBack has a job wait again for at least as long as d.
func (b *backlog) putBack(t turn, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.putBack(t.tenant, t.seq, time.Now().Add(d))
}

func (b *backlog) hit(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.hit(t.tenant)
}

func (b *backlog) miss(t turn) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.miss(t.tenant)
}

func (b *backlog) latest(tenant string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.latest(tenant)
}

func (b *backlog) forget(tenant string, before uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.forget(tenant, before)
}

// followBacklog indexes the backlog until ctx ends, and from its beginning again when
// something of it was missed: the stream was created again, for example.
func (q *Queue) followBacklog(ctx context.Context, logger *slog.Logger) {
	for ctx.Err() == nil {
		following, stop := context.WithCancel(ctx)
		done, err := q.indexBacklog(following, logger)
		if err != nil {
			stop()
			logger.Warn("the backlog cannot be followed", "error", err)
			_ = broker.Wait(ctx, dispatchInterval) // the loop looks at ctx
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
