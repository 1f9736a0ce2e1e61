package fleet

import (
	"sync"
	"time"
)

const (
	// claimEvery is how often the replica that holds a lease says so.
	claimEvery = time.Second
	// leaseFor is how long the others take its word for it.
	leaseFor = 3 * claimEvery
	// listenFor is how long a replica listens before it takes a lease.
	listenFor = claimEvery + claimEvery/4
	// reportWithin is how long a holder is taken to go on after its last report.
	reportWithin = 5 * time.Second
)

// claim is what a replica says of a lease that it holds.
type claim struct {
	Term uint64 `json:"term"`
	Flag bool   `json:"flag,omitempty"`
	// Failing: the replica gives way to any that claims the lease and does not fail.
	Failing bool `json:"failing,omitempty"`
}

// Lease is what this replica knows of which replica holds a lease. It is safe for concurrent
// use.
//
// Of two claims the one with the higher term counts, and of equal terms that of the lower
// replica id: all replicas prefer the same one, in whatever order they hear them. A replica
// that takes over has a higher term, so that one that was stopped meanwhile gives way when
// it goes on.
type Lease struct {
	self string

	mu sync.Mutex
	// holder is the replica that holds the lease, and term its term; "" for none.
	holder string
	term   uint64
	// until is when the claim of another replica is over.
	until time.Time
	// flag is sent with the claim. Its meaning belongs to the user of the lease.
	flag bool
	// failing: this replica holds the lease and cannot do what it is for. It is taken to hold
	// it no more, so that another takes it over, and goes on where none does.
	failing bool
	// fails is another replica that said so of itself, with its flag, and until when that
	// counts.
	fails      string
	failsFlag  bool
	failsUntil time.Time
	// reported is when this replica said last how it goes. One that hangs claims nothing
	// either.
	reported time.Time
}

// NewLease returns a lease that no replica holds. self is the id of this replica, which is not
// empty and which no other one has.
func NewLease(self string) *Lease { return &Lease{self: self} }

// Take takes the lease where no other replica holds it, and reports whether it is newly
// this replica's. The flag is what it tells the others until the first Report.
func (l *Lease) Take(now time.Time, flag bool) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == l.self || l.others(now) {
		return false
	}
	l.holder, l.term, l.flag, l.failing, l.reported = l.self, l.term+1, flag, false, now
	return true
}

// others reports whether another replica holds the lease. l.mu is held.
func (l *Lease) others(now time.Time) bool {
	return l.holder != "" && l.holder != l.self && now.Before(l.until)
}

// Held reports whether this replica holds the lease.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.self
}

// Holder is the replica that holds the lease, as far as this one knows, which can be itself,
// and the flag that the holder told last. held is false where none does.
func (l *Lease) Holder(now time.Time) (replica string, flag, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.self && !l.others(now) {
		return "", false, false
	}
	return l.holder, l.flag, true
}

// Failing is another replica that holds the lease and fails, and its flag; "" for none.
// For the others the lease is vacant then.
func (l *Lease) Failing(now time.Time) (replica string, flag bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.failsUntil) {
		return "", false
	}
	return l.fails, l.failsFlag
}

// Vacant reports whether no replica holds the lease.
func (l *Lease) Vacant(now time.Time) bool {
	_, _, held := l.Holder(now)
	return !held
}

// Expire reports, once, whether another replica held the lease and has not said so in time.
func (l *Lease) Expire(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == "" || l.holder == l.self || l.others(now) {
		return false
	}
	l.holder = ""
	return true
}

// Release gives up the lease, and reports whether it was held. Claims.Release tells the
// others too.
func (l *Lease) Release() (was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.holder == l.self
	if was {
		l.holder = ""
	}
	return was
}

// Report notes the flag of the holder and whether it fails, and reports whether the others are to
// be told at once (Claims.Say). A holder reports at least every other second: where it does not for reportWithin,
// it claims the lease no more; where it fails, its claim says so.
func (l *Lease) Report(now time.Time, flag, failing bool) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.self {
		return false
	}
	news = l.flag != flag
	l.flag, l.failing, l.reported = flag, failing, now
	return news
}

// claim is what this replica says of the lease: false for nothing.
func (l *Lease) claim(now time.Time) (c claim, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return claim{Term: l.term, Flag: l.flag, Failing: l.failing}, l.holder == l.self && !l.hangs(now)
}

// hangs reports whether this replica does not say how it goes. l.mu is held.
func (l *Lease) hangs(now time.Time) bool { return now.Sub(l.reported) > reportWithin }

// stuck reports whether this replica fails, or hangs. l.mu is held.
func (l *Lease) stuck(now time.Time) bool { return l.failing || l.hangs(now) }

// heard takes the claim of another replica. changed: another one, or none, held the lease
// until now. object: the other one is to be told that it does not hold it.
func (l *Lease) heard(from string, c claim, now time.Time) (changed, object bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Failing {
		l.fails, l.failsFlag, l.failsUntil = from, c.Flag, now.Add(leaseFor)
		return false, false
	}
	if l.fails == from {
		l.failsUntil = time.Time{}
	}
	known := l.holder == l.self && !l.stuck(now) || l.others(now) // a holder that is stuck gives way to any
	if known && l.holder != from && (c.Term < l.term || c.Term == l.term && l.holder < from) {
		return false, l.holder == l.self && !l.stuck(now)
	}
	changed = l.holder != from
	l.holder, l.term, l.flag, l.until = from, max(l.term, c.Term), c.Flag, now.Add(leaseFor)
	return changed, false
}

// released notes that another replica has given up the lease.
func (l *Lease) released(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == from {
		l.holder = ""
	}
	if l.fails == from {
		l.failsUntil = time.Time{}
	}
}
