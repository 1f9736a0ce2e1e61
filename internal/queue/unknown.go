package queue

import "time"

const (
	// unknownFor is how long the count may exceed the index without a dispatch before the backlog
	// is reread. The count may include jobs that the index has not received yet. While jobs are
	// dispatched, the limit is ten times as long. Each reread doubles the limit, up to maxUnknown,
	// because the count can be wrong and reading a large backlog takes seconds.
	unknownFor = 3 * time.Second
	maxUnknown = 10 * time.Minute
)

// unknownJobs tracks how long a dispatcher's count has exceeded its index.
type unknownJobs struct {
	// since is when the count began to exceed the index, or zero if it does not. undispatched is
	// the later of since and the last dispatch.
	since, undispatched time.Time
	// patience is the current limit; it starts at unknownFor.
	patience time.Duration
}

// none records that the index is complete.
func (u *unknownJobs) none() { u.since = time.Time{} }

// overdue records that jobs are missing from the index. dispatched is true if any jobs were
// dispatched since the last call. overdue reports whether the backlog must be reread.
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
	u.patience = min(2*u.patience, maxUnknown)
	return true
}
