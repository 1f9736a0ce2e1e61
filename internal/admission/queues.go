package admission

import (
	"context"
	"sync"
	"sync/atomic"
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

// count is a cached number. One caller at a time refreshes it, and the others go
// on with what is known: a slow broker must not queue them up.
type count struct {
	n       atomic.Uint64
	at      atomic.Int64 // Unix nanoseconds of the last refresh
	working atomic.Bool
}

func newQueues(b *broker.Broker) *queues {
	return &queues{b: b, counts: map[string]*count{}}
}

// waiting is the number of jobs that wait for a route. A count that cannot be
// read stands as it was: the stream's own limit is the last fence.
func (q *queues) waiting(ctx context.Context, kind subject.Kind, route string) uint64 {
	durable := subject.WorkDurable(kind, route)
	c := q.count(durable)
	if time.Since(time.Unix(0, c.at.Load())) < time.Second || !c.working.CompareAndSwap(false, true) {
		return c.n.Load()
	}
	defer c.working.Store(false)
	if consumer, err := q.b.JetStream().Consumer(ctx, q.b.Names().Work(), durable); err == nil {
		c.n.Store(consumer.CachedInfo().NumPending)
	}
	c.at.Store(time.Now().UnixNano())
	return c.n.Load()
}

func (q *queues) count(durable string) *count {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts[durable]
	if c == nil {
		c = &count{}
		q.counts[durable] = c
	}
	return c
}
