package queue

import "time"

const (
	// unknownFor is how long the count may exceed the index, without a dispatch, before the backlog
	// is reread; a counted job may still be on its way to the index. With dispatches, the limit is
	// ten times as long. Each reread doubles it, up to unknownMost, because the count can be wrong
	// and a large backlog takes seconds to read.
	unknownFor  = 3 * time.Second
	unknownMost = 10 * time.Minute
)

// unknownJobs tracks how long a dispatcher's count has exceeded its index.
type unknownJobs struct {
	// since is when the count began to exceed the index; zero if it does not. undispatched is
	// since, or the last dispatch if that was later.
	since, undispatched time.Time
	// patience is the current limit; it starts at unknownFor.
	patience time.Duration
}

// none records that the index is complete.
func (u *unknownJobs) none() { u.since = time.Time{} }

// overdue records that jobs are missing from the index, and whether any were dispatched since the
// last call. It reports whether to reread the backlog.
func (u *unknownJobs) overdue(now time.Time, dispatched bool) bool {
	if u.since.IsZero() {
		u.since, u.undispatched = now, now
	}
	if dispatched {
		u.undispatched = now
	}
	if now.Sub(u.undispatched) < u.patience && now.Sub(u.since) < 10*u.patience {
		return false
	}
	u.patience = min(2*u.patience, unknownMost)
	return true
}
