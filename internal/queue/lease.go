package queue

import (
	"sync"
	"time"
)

const (
	// claimEvery is how often the replica that dispatches a route says so.
	claimEvery = time.Second
	// leaseFor is how long the others take its word for it.
	leaseFor = 3 * claimEvery
	// listenFor is how long a replica listens before it takes a lease.
	listenFor = claimEvery + claimEvery/4
	// reportWithin is how long a dispatcher is taken to go on after its last report.
	reportWithin = 5 * time.Second
)

// claim is what a replica says of a route whose backlog it dispatches.
type claim struct {
	Term      uint64 `json:"term"`
	Congested bool   `json:"congested,omitempty"`
}

// lease is what this replica knows of which replica dispatches a route. The moves are safe
// although several do (mover.move): a lease saves reads of jobs that another one has moved,
// and makes one order of tenants for all replicas. So it is agreed on without a store, by
// what replicas tell each other (claims) and by their own clocks.
//
// Of two claims the one with the higher term counts, and of equal terms that of the lower
// replica id: all replicas prefer the same one, in whatever order they hear them. A replica
// that takes over has a higher term, so that one that was stopped meanwhile gives way when
// it goes on.
type lease struct {
	self string

	mu sync.Mutex
	// holder is the replica that dispatches the route, and term its term; "" for none.
	holder string
	term   uint64
	// until is when the claim of another replica is over.
	until time.Time
	// congested: the holder has jobs in the backlog that wait.
	congested bool
	// failing: this replica holds the lease and moves nothing. It claims it no more, so
	// that another takes it over, and goes on where none does.
	failing bool
	// reported is when the dispatcher of this replica said last how it goes. One that hangs
	// claims nothing either.
	reported time.Time
}

// take takes the lease where no other replica holds it, and reports whether it is newly
// this replica's. There is a backlog then, so that the others put new jobs behind it.
func (l *lease) take(now time.Time) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == l.self || l.others(now) {
		return false
	}
	l.holder, l.term, l.congested, l.failing, l.reported = l.self, l.term+1, true, false, now
	return true
}

// others reports whether another replica holds the lease. l.mu is held.
func (l *lease) others(now time.Time) bool {
	return l.holder != "" && l.holder != l.self && now.Before(l.until)
}

// held reports whether this replica holds the lease.
func (l *lease) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.self
}

// vacant reports whether no replica holds the lease.
func (l *lease) vacant(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder != l.self && !l.others(now)
}

// expire reports, once, whether another replica held the lease and has not said so in time.
func (l *lease) expire(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == "" || l.holder == l.self || l.others(now) {
		return false
	}
	l.holder = ""
	return true
}

// release gives up the lease, and reports whether it was held.
func (l *lease) release() (was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.holder == l.self
	if was {
		l.holder = ""
	}
	return was
}

// report notes how the holder's dispatch goes, and reports whether the others are to be
// told at once.
func (l *lease) report(now time.Time, congested, failing bool) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.self {
		return false
	}
	news = l.congested != congested
	l.congested, l.failing, l.reported = congested, failing, now
	return news
}

// claim is what this replica says of the route: false for nothing.
func (l *lease) claim(now time.Time) (c claim, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return claim{Term: l.term, Congested: l.congested}, l.holder == l.self && !l.stuck(now)
}

// stuck reports whether this replica moves nothing, or hangs. l.mu is held.
func (l *lease) stuck(now time.Time) bool { return l.failing || now.Sub(l.reported) > reportWithin }

// heard takes the claim of another replica. changed: another one, or none, held the lease
// until now. object: the other one is to be told that it does not hold it.
func (l *lease) heard(from string, c claim, now time.Time) (changed, object bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.holder == l.self || l.others(now)
	if known && l.holder != from && (c.Term < l.term || c.Term == l.term && l.holder < from) {
		return false, l.holder == l.self && !l.stuck(now)
	}
	changed = l.holder != from
	l.holder, l.term, l.congested, l.until = from, max(l.term, c.Term), c.Congested, now.Add(leaseFor)
	return changed, false
}

// released notes that another replica has given up the lease.
func (l *lease) released(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == from {
		l.holder = ""
	}
}

// waits reports whether another replica has said that jobs of the route wait for room.
func (l *lease) waits(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.others(now) && l.congested
}
