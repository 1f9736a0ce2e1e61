package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// indexing manages the index of one route in its dispatcher.
type indexing struct {
	route  *Route
	logger *slog.Logger

	// stop stops the index. It is nil if there is none. next is the earliest time for another
	// attempt after a failure. ending counts the indexes that are still stopping.
	stop   func()
	next   time.Time
	ending sync.WaitGroup
}

// begin starts the index unless it exists, and reports whether there is one.
func (x *indexing) begin(ctx context.Context, now time.Time) (ok bool, err error) {
	if x.stop == nil && !now.Before(x.next) {
		if x.stop, err = x.route.index(ctx, x.logger); err != nil {
			x.next = time.Now().Add(reindexWait)
		}
	}
	return x.stop != nil, err
}

// clear stops the index and clears the backlog.
func (x *indexing) clear() {
	if x.stop != nil {
		x.route.backlog.clear(time.Time{})
		x.ending.Go(x.stop)
		x.stop = nil
	}
}

const (
	// reindexWait is how long to wait after an index could not be started.
	reindexWait = time.Second
	indexWithin = 10 * time.Second
)

// index follows the route's backlog from its beginning until stop is called. stop may block while
// the broker is unavailable. The dispatcher detects missed jobs and a recreated stream.
func (r *Route) index(ctx context.Context, logger *slog.Logger) (stop func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, indexWithin)
	defer cancel()
	s, err := r.b.Stream(ctx, r.b.Names().Wait())
	if err != nil {
		return nil, fmt.Errorf("follow the backlog of %s: %w", r.durable, err)
	}
	c, err := r.b.JetStream().OrderedConsumer(ctx, r.b.Names().Wait(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.b.Names().WaitRoutePattern(r.kind, r.name)}, HeadersOnly: true, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("follow the backlog of %s: %w", r.durable, err)
	}
	reading := r.backlog.clear(s.CachedInfo().Created)
	if info := c.CachedInfo(); info != nil && info.NumPending == 0 {
		r.backlog.end(reading)
	}
	consuming, err := c.Consume(func(m jetstream.Msg) { r.add(reading, m) }, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		logger.Debug("backlog consumer failed", "route", r.name, "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("follow the backlog of %s: %w", r.durable, err)
	}
	return func() {
		consuming.Stop()
		<-consuming.Closed()
	}, nil
}

func (r *Route) add(reading int, m jetstream.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	if n, err := r.b.Names().ParseWaitItem(m.Subject()); err == nil {
		r.backlog.add(reading, n.Tenant, meta.Sequence.Stream)
	}
	if meta.NumPending == 0 {
		r.backlog.end(reading)
	}
}
