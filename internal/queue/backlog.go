package queue

import (
	"sync"
	"time"
)

// backlog is the index of a route's backlog in the replica that dispatches it: an ordered
// consumer tells it of each job, without its body. That another replica moved a job shows
// when it is looked for.
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

// clear forgets all jobs.
func (b *backlog) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin = newRoundRobin()
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
