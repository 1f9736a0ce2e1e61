package admission

import (
	"context"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// queues knows how many jobs wait for each route: the pending count of the
// route's consumer, asked at most once a second.
type queues struct {
	b *broker.Broker

	mu     sync.Mutex
	counts map[string]*count
}

type count struct {
	mu sync.Mutex
	at time.Time
	n  uint64
}

func newQueues(b *broker.Broker) *queues {
	return &queues{b: b, counts: map[string]*count{}}
}

// waiting is the number of jobs that wait for a route. A count that cannot be
// read stands as it was: the stream's own limit is the last fence.
func (q *queues) waiting(ctx context.Context, kind subject.Kind, route string) uint64 {
	durable := subject.WorkDurable(kind, route)
	q.mu.Lock()
	c := q.counts[durable]
	if c == nil {
		c = &count{}
		q.counts[durable] = c
	}
	q.mu.Unlock()

	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < time.Second {
		return c.n
	}
	c.at = time.Now()
	if consumer, err := q.b.JetStream().Consumer(ctx, q.b.Names().Work(), durable); err == nil {
		c.n = consumer.CachedInfo().NumPending
	}
	return c.n
}
