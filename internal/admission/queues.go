package admission

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// queues knows how many jobs wait for each route, and which routes are paused: the
// pending count and the state of the route's consumer, and the count of those that
// wait for their turn, asked at most once a second.
type queues struct {
	cfg *config.Live
	b   *broker.Broker

	mu     sync.Mutex
	counts map[string]*count
}

// count is a cached number. One caller at a time refreshes it, and the others go
// on with what is known: a slow broker must not queue them up.
type count struct {
	line    line
	inLine  atomic.Uint64
	behind  atomic.Uint64 // those that wait for their turn
	paused  atomic.Bool
	at      atomic.Int64 // Unix nanoseconds of the last refresh
	working atomic.Bool
}

func newQueues(cfg *config.Live, b *broker.Broker) *queues {
	return &queues{cfg: cfg, b: b, counts: map[string]*count{}}
}

// waiting is the number of jobs that wait for a route, in line and behind it. A
// count that cannot be read stands as it was: the stream's own limit is the last
// fence.
func (q *queues) waiting(ctx context.Context, kind subject.Kind, route string) uint64 {
	return q.look(ctx, kind, route).waiting()
}

func (c *count) waiting() uint64 { return c.inLine.Load() + c.behind.Load() }

// look gives what is known of a route, after a look at its consumer where that is
// due.
func (q *queues) look(ctx context.Context, kind subject.Kind, route string) *count {
	durable := subject.WorkDurable(kind, route)
	c := q.count(durable)
	if time.Since(time.Unix(0, c.at.Load())) < time.Second || !c.working.CompareAndSwap(false, true) {
		return c
	}
	defer c.working.Store(false)
	read := c.line.reading()
	if consumer, err := q.b.Consumer(ctx, q.b.Names().Work(), durable); err == nil {
		info := consumer.CachedInfo()
		c.inLine.Store(info.NumPending)
		c.paused.Store(info.Paused)
		read(int(min(info.NumPending, math.MaxInt32)))
	}
	if consumer, err := q.b.Consumer(ctx, q.b.Names().Wait(), durable); err == nil {
		c.behind.Store(consumer.CachedInfo().NumPending)
	}
	c.at.Store(time.Now().UnixNano())
	return c
}

func (q *queues) count(durable string) *count {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts[durable]
	if c == nil {
		c = &count{line: line{ready: q.ready(durable)}}
		q.counts[durable] = c
	}
	return c
}

// ready are the places in the line of a route before its usher has begun.
func (q *queues) ready(durable string) int {
	for _, r := range q.cfg.Now().Routes {
		if subject.WorkDurable(subject.Kind(r.Kind), r.Name) == durable {
			return r.ReadyJobs
		}
	}
	return 0
}
