package fleet

import (
	"sync"
	"time"
)

const (
	// claimEvery is how often a holder repeats its claim.
	claimEvery = time.Second
	// leaseFor is how long a claim is valid.
	leaseFor = 3 * claimEvery
	// listenFor is how long a replica listens before it takes a lease.
	listenFor = claimEvery + claimEvery/4
	// reportWithin is how long a holder counts as alive after its last report.
	reportWithin = 5 * time.Second
)

// claim is a replica's message about a lease that it holds.
type claim struct {
	Term uint64 `json:"term"`
	Flag bool   `json:"flag,omitempty"`
	// Failing means that any replica that is not failing may take the lease.
	Failing bool `json:"failing,omitempty"`
}

// Lease tracks which replica holds a lease, as seen by this one. It is safe for concurrent use.
//
// Of two claims, the one with the higher term wins. If the terms are equal, the one with the lower
// replica ID wins. All replicas therefore prefer the same claim, no matter in which order they
// receive the claims. A replica that takes over uses a higher term, so that a holder that was
// suspended gives way when it resumes.
type Lease struct {
	self string

	mu sync.Mutex
	// holder is the replica that holds the lease, or "". term is the term of its claim.
	holder string
	term   uint64
	// until is when another replica's claim expires.
	until time.Time
	// flag is sent with the claim. The user of the lease defines its meaning.
	flag bool
	// failing means that this replica holds the lease but cannot do the work. The others treat the
	// lease as vacant. If no other replica takes it, this replica continues.
	failing bool
	// fails is another replica whose claim reported that it is failing. failsFlag is the flag of
	// that claim, and failsUntil is when it expires.
	fails      string
	failsFlag  bool
	failsUntil time.Time
	// reported is the time of this replica's last report. A replica that hangs sends no claims.
	reported time.Time
}

// NewLease returns a lease without a holder. self is this replica's unique, non-empty ID.
func NewLease(self string) *Lease { return &Lease{self: self} }

// Take takes the lease unless another replica holds it, and reports whether this replica newly
// holds it. flag applies until the first Report.
func (l *Lease) Take(now time.Time, flag bool) (taken bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == l.self || l.others(now) {
		return false
	}
	l.holder, l.term, l.flag, l.failing, l.reported = l.self, l.term+1, flag, false, now
	return true
}

// others reports whether another replica holds the lease. The caller holds mu.
func (l *Lease) others(now time.Time) bool {
	return l.holder != "" && l.holder != l.self && now.Before(l.until)
}

// Held reports whether this replica holds the lease.
func (l *Lease) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder == l.self
}

// Holder returns the replica that holds the lease, which may be this one, and its last flag. held
// is false if no replica holds it.
func (l *Lease) Holder(now time.Time) (replica string, flag, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder != l.self && !l.others(now) {
		return "", false, false
	}
	return l.holder, l.flag, true
}

// Failing returns another replica that holds the lease but is failing, and its flag. It returns ""
// if there is none. A lease with a failing holder counts as vacant.
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

// Expire reports whether another replica's claim has expired. It reports each expiry only once.
func (l *Lease) Expire(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.holder == "" || l.holder == l.self || l.others(now) {
		return false
	}
	l.holder = ""
	return true
}

// Release releases the lease and reports whether this replica held it. Claims.Release also tells
// the others.
func (l *Lease) Release() (was bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	was = l.holder == l.self
	if was {
		l.holder = ""
	}
	return was
}

// Report records the holder's flag and whether it is failing. It returns true if the others must be
// told at once (Claims.Announce). A holder must report at least every other second. If it has not
// reported for reportWithin, it stops claiming the lease. If it is failing, its claims report that.
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

// claim returns this replica's claim of the lease. ok is false if there is none.
func (l *Lease) claim(now time.Time) (c claim, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return claim{Term: l.term, Flag: l.flag, Failing: l.failing}, l.holder == l.self && !l.hangs(now)
}

// hangs reports whether this replica has stopped reporting. The caller holds mu.
func (l *Lease) hangs(now time.Time) bool { return now.Sub(l.reported) > reportWithin }

// stuck reports whether this replica is failing or hangs. The caller holds mu.
func (l *Lease) stuck(now time.Time) bool { return l.failing || l.hangs(now) }

// handleClaim handles another replica's claim. changed is true if that replica newly counts as the
// holder. object is true if it must be told that it does not hold the lease.
func (l *Lease) handleClaim(from string, c claim, now time.Time) (changed, object bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Failing {
		l.fails, l.failsFlag, l.failsUntil = from, c.Flag, now.Add(leaseFor)
		return false, false
	}
	if l.fails == from {
		l.failsUntil = time.Time{}
	}
	known := l.holder == l.self && !l.stuck(now) || l.others(now) // any claim takes precedence over a stuck holder
	if known && l.holder != from && (c.Term < l.term || c.Term == l.term && l.holder < from) {
		return false, l.holder == l.self && !l.stuck(now)
	}
	changed = l.holder != from
	l.holder, l.term, l.flag, l.until = from, max(l.term, c.Term), c.Flag, now.Add(leaseFor)
	return changed, false
}

// released records that another replica has released the lease.
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
