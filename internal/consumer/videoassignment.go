package consumer

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
)

// assignment is what ties a task to an upstream and one of its keys, from the
// choice until this process lets the task go. Before that it remembers who has
// refused the task. The zero value is free. Only the goroutine at work uses it.
type assignment struct {
	lease *pool.Lease
	// tried are the accounts that refused the task in this round.
	tried pool.Tried
	// waiting is true when one of them refused for now: the round's end is then
	// not the task's.
	waiting bool
	// sent are the upstreams that this process sent the request to, in order.
	sent []string
}

// choose takes a place with an account that the task has not tried. It is false
// when nobody takes the task now, with the time of the next look.
func (j *videoJob) choose() (time.Time, bool) {
	if j.assigned.lease != nil { // taken right after a refusal
		return time.Time{}, true
	}
	j.assigned.tried.Again = j.entry.Job.GetExecution().GetAttempt() > 0
	lease, err := j.Accounts.Acquire(&j.assigned.tried)
	if errors.Is(err, pool.ErrExhausted) {
		j.assigned.newRound()
		lease, err = j.Accounts.Acquire(&j.assigned.tried)
	}
	var busy *pool.BusyError
	switch {
	case err == nil:
		j.assigned.lease = lease
		return time.Time{}, true
	case errors.As(err, &busy):
		// Those that refused may be free again before those that are busy.
		j.assigned.newRound()
		return soon(busy.Until), false
	default:
		return time.Now().Add(retryLog), false
	}
}

// elsewhere looks who else may take a task that was refused, and gives the time
// of the next try: now where somebody does. It is false when nobody will.
func (j *videoJob) elsewhere(s upstream.Submission) (time.Time, bool) {
	a, now := &j.assigned, time.Now()
	a.leave()
	forNow := s.Verdict == upstream.RefusedForNow
	if s.Err.Scope == upstream.ScopeRequest {
		a.newRound()
		return now.Add(j.backoff(s.Err)), forNow
	}
	a.waiting = a.waiting || forNow
	lease, err := j.Accounts.Acquire(&a.tried)
	var busy *pool.BusyError
	switch {
	case err == nil:
		a.lease = lease
		return now, true
	case errors.As(err, &busy):
		return busy.Until, true
	}
	waiting := a.waiting
	a.newRound()
	return now.Add(j.backoff(s.Err)), waiting
}

// soon is the next look of a task that waits for a place: not at once, and spread
// over the many that wait for the same moment.
func soon(at time.Time) time.Time {
	if least := time.Now().Add(retryLog / 2); at.Before(least) {
		at = least
	}
	return at.Add(rand.N(retryLog / 4))
}

func (a *assignment) newRound() { a.tried, a.waiting = pool.Tried{Again: a.tried.Again}, false }

// resume counts a task that an account has already.
func (a *assignment) resume(table *routes.Table, account pool.Account) {
	if a.lease == nil {
		a.lease = table.Resume(account)
	}
}

// report tells what became of the create request, made by a client of this chooser's
// configuration.
func (a *assignment) report(by *pool.Chooser, job pool.Job, err *upstream.Error) {
	if a.lease != nil {
		a.lease.Report(by, job, err)
	}
}

func poolJob(n subject.TaskName) pool.Job { return pool.Job{ID: n.ID, Tenant: n.Tenant} }

// leave gives the place back.
func (a *assignment) leave() {
	if a.lease != nil {
		a.lease.Release()
		a.lease = nil
	}
}

// sentBefore remembers that the request is sent to an account, and reports
// whether its upstream may have seen an earlier one. What another process sent is
// not known.
func (a *assignment) sentBefore(account pool.Account, attempt uint32) bool {
	known := int(attempt) == len(a.sent)+1
	before := !known && attempt > 1
	for _, name := range a.sent {
		before = before || name == account.Upstream
	}
	a.sent = append(a.sent, account.Upstream)
	return before
}

func (a *assignment) upstream() string {
	if a.lease == nil {
		return ""
	}
	return a.lease.Account().Upstream
}

func (a *assignment) key() string {
	if a.lease == nil {
		return ""
	}
	return a.lease.Account().Key
}
