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
	// readings counts how often it was read from its beginning, and complete is true once
	// the last reading has come to the end. created is when the stream was that is read.
	readings int
	complete bool
	created  time.Time
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

// clear forgets all jobs, and what the readings before this one still tell. The next reading
// is of a stream that was created then; zero where there is none.
func (b *backlog) clear(created time.Time) (reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin, b.complete, b.created = newRoundRobin(), false, created
	b.readings++
	return b.readings
}

// add adds a job that a reading has found.
func (b *backlog) add(reading int, tenant string, seq uint64) {
	b.mu.Lock()
	if reading == b.readings {
		b.roundRobin.add(tenant, seq)
	}
	b.mu.Unlock()
	b.wake()
}

// end notes that a reading has come to the end of the backlog.
func (b *backlog) end(reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complete = b.complete || reading == b.readings
}

// of reports whether what is known is of the stream that was created then.
func (b *backlog) of(created time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.created.Equal(created)
}

// known is the number of tenants in the backlog; false while not all of it was read.
func (b *backlog) known() (tenants int, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.roundRobin.tenants), b.complete
}

// reads reports whether a reading has begun, and has not come to the end yet.
func (b *backlog) reads() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.complete && len(b.roundRobin.tenants) > 0
}

// jobs is the number of jobs that are known.
func (b *backlog) jobs() (n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.roundRobin.tenants {
		n += uint64(len(t.jobs))
	}
	return n
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
