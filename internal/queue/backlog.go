package queue

import (
	"sync"
	"time"
)

// backlog is the index of a route's backlog in the dispatching replica. An ordered consumer reports
// each job, without its body. A job that another replica has dispatched stays in the index until it
// is looked up.
type backlog struct {
	signal chan struct{} // has a token if the dispatcher may have work

	mu         sync.Mutex
	roundRobin *roundRobin
	skipping   map[string]struct{} // tenants whose next job is being looked up
	// readings is the number of times that the backlog was read from its beginning. complete is
	// true if the latest reading has reached the end. lastItemAt is when that reading received its
	// latest message, or when it started. created is the creation time of the stream.
	readings   int
	complete   bool
	lastItemAt time.Time
	created    time.Time
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

// clear removes all jobs and ignores further reports of earlier readings. created is the creation
// time of the stream to read next, or zero.
func (b *backlog) clear(created time.Time) (reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin, b.complete, b.created = newRoundRobin(), false, created
	b.lastItemAt = time.Now()
	b.readings++
	return b.readings
}

func (b *backlog) add(reading int, tenant string, seq uint64) {
	b.mu.Lock()
	if reading == b.readings {
		b.roundRobin.add(tenant, seq)
		b.lastItemAt = time.Now()
	}
	b.mu.Unlock()
	b.wake()
}

// end records that a reading has reached the end of the backlog.
func (b *backlog) end(reading int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complete = b.complete || reading == b.readings
}

// of reports whether the index belongs to the stream with the given creation time.
func (b *backlog) of(created time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.created.Equal(created)
}

// waits reports whether any tenants wait, apart from those that are passed over. all is false until
// the whole backlog has been read.
func (b *backlog) waits(now time.Time) (waits, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.waits(now), b.complete
}

// jobs returns the number of indexed jobs. reads reports whether a reading is still adding jobs.
func (b *backlog) jobs(now time.Time) (n uint64, reads bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.roundRobin.size, !b.complete && now.Sub(b.lastItemAt) < unknownFor
}

// tenants returns the number of tenants in the backlog, except tenants whose jobs are all
// postponed.
func (b *backlog) tenants() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.roundRobin.tenants)
}

type turn struct {
	tenant string
	seq    uint64
}

func (b *backlog) next(now time.Time) (turn, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tenant, seq, ok := b.roundRobin.next(now)
	return turn{tenant: tenant, seq: seq}, ok
}

// putBack puts a job back and delays its tenant by d.
func (b *backlog) putBack(t turn, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.putBack(t.tenant, t.seq, time.Now().Add(d))
}

// postpone puts a job back after postponeFor, without delaying its tenant.
func (b *backlog) postpone(t turn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.postpone(t.tenant, t.seq, time.Now().Add(postponeFor))
}

// passOver puts a job back and passes over its tenant for d. During that time, jobs of other
// tenants do not wait behind the tenant's jobs.
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

// miss records that another replica had dispatched a job. If skip is true, the caller must look up
// the tenant's next job and then call skipped.
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

func (b *backlog) remove(tenant string, before uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roundRobin.remove(tenant, before)
}
