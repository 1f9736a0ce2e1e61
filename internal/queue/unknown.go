package queue

import "time"

const (
	// unknownFor is how long the count has more jobs than the index, while none is dispatched, until
	// the backlog is read again: one that was counted may just be on its way. Where jobs are
	// dispatched it is ten times that. Each reading doubles it, up to unknownMost: the count can be
	// wrong too, and a large backlog takes seconds to read.
	unknownFor  = 3 * time.Second
	unknownMost = 10 * time.Minute
)

// unknownJobs are those that a dispatcher's count has, and its index has not.
type unknownJobs struct {
	// since is since when there are some, and undispatched since when there are and no job was dispatched;
	// zero for not.
	since, undispatched time.Time
	// patience is unknownFor, or longer after a reading.
	patience time.Duration
}

// none notes that there are none.
func (u *unknownJobs) none() { u.since = time.Time{} }

// overdue notes that there are some, and whether jobs were dispatched since the last call, and
// reports whether the backlog is to be read again.
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
