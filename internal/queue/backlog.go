package queue

import (
	"sync"
	"time"
)

// backlog is the index of a route's backlog in the replica that dispatches it: an ordered
// consumer tells it of each job, without its body. That another replica dispatched a job shows
// when it is looked for.
type backlog struct {
	signal chan struct{} // has a token when the dispatcher may have something to do

	mu         sync.Mutex
	roundRobin *roundRobin
	skipping   map[string]struct{} // the tenants whose next job is being looked for
	// readings counts how often it was read from its beginning, and complete is true once
	// the last reading has come to the end. heard is when it told of a message last, or
	// began. created is when the stream that is read was created.
	readings int
	complete bool
	heard    time.Time
	created  time.Time
}

func newBacklog() *backlog {
	return &backlog{signal: make(chan struct{}, 1), roundRobin: newRoundRobin(), skipping: map[string]struct{}{}}
}

func (b *backlog) wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// clear forgets all jobs, and what the readings before this one still tell. created is when
// the stream that is read next was created; zero where none is.
func (b *backlog) clear(created time.Time) (reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin, b.complete, b.created = newRoundRobin(), false, created
	b.heard = time.Now()
	b.readings++
	return b.readings
}

// add adds a job that a reading has found.
func (b *backlog) add(reading int, tenant string, seq uint64) {
	b.mu.Lock()
	if reading == b.readings {
		b.roundRobin.add(tenant, seq)
		b.heard = time.Now()
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

// of reports whether what is known is of the stream that was created at that time.
func (b *backlog) of(created time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.created.Equal(created)
}

// waits reports whether a tenant waits that is not passed over; all is false while not all of
// the backlog was read.
func (b *backlog) waits(now time.Time) (waits, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.waits(now), b.complete
}

// jobs is the number of jobs that are known; reads: a reading goes on, and tells of more.
func (b *backlog) jobs(now time.Time) (n uint64, reads bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.size, !b.complete && now.Sub(b.heard) < unknownFor
}

// tenants is the number of tenants in the backlog, but for those that have postponed jobs only.
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

// postpone has a job wait again for at least as long as postponeFor, and none of its tenant's
// others.
func (b *backlog) postpone(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.postpone(t.tenant, t.seq, time.Now().Add(postponeFor))
}

// passOver is putBack for a job of which the tenant is passed over: jobs of others do not wait
// for those of it, and become ready where the window has room.
func (b *backlog) passOver(t turn, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.passOver(t.tenant, t.seq, time.Now().Add(d))
}

func (b *backlog) hit(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.hit(t.tenant)
}

// miss notes that another replica had dispatched a job. skip is true when the tenant's next one is
// to be looked for, by one call at a time; skipped must follow.
func (b *backlog) miss(t turn) (skip bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, under := b.skipping[t.tenant]; b.roundRobin.miss(t.tenant) < maxMissed || under {
		return false
	}
	b.skipping[t.tenant] = struct{}{}
	return true
}

func (b *backlog) skipped(tenant string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.skipping, tenant)
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
