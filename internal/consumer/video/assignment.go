package video

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
)

// assignment is what ties a task to an upstream and one of its keys, from the choice until
// this process lets the task go. Before that it remembers who has refused the task. The
// zero value is free, and does not wait in turn. Only the goroutine at work uses it.
type assignment struct {
	lease *pool.Lease
	// ticket is the task's place among those that wait for a slot of an account.
	ticket *pool.Ticket
	// tried are the accounts that refused the task in this round.
	tried pool.Tried
	// sent are the upstreams that this process sent the request to, in order.
	sent []string
}

// choose acquires a slot of an account that the task has not tried. Where none takes the
// task now, the error is *pool.BusyError or another of the pool's.
func (a *assignment) choose(by *pool.Chooser, retry bool) error {
	if a.lease != nil { // acquired right after a refusal
		return nil
	}
	a.tried.SentBefore = retry
	lease, err := by.AcquireInTurn(&a.tried, a.ticket)
	if errors.Is(err, pool.ErrExhausted) {
		a.newRound()
		lease, err = by.AcquireInTurn(&a.tried, a.ticket)
	}
	if err != nil {
		if _, busy := errors.AsType[*pool.BusyError](err); busy {
			a.newRound() // those that refused may be free again before those that are busy
		}
		return err
	}
	a.lease = lease
	return nil
}

// elsewhere looks for another account for a task that was refused, and gives the time of
// the next try: now where one has a free slot, and after backoff where the same ones are to
// be tried again. It is false when none is left to try.
func (a *assignment) elsewhere(by *pool.Chooser, s upstream.Submission, backoff time.Duration) (time.Time, bool) {
	now := time.Now()
	a.release()
	forNow := s.Verdict == upstream.RefusedForNow
	if s.Err.Scope == upstream.ScopeRequest {
		a.newRound()
		return now.Add(backoff), forNow
	}
	a.tried.RefusedForNow = a.tried.RefusedForNow || forNow
	lease, err := by.Acquire(&a.tried)
	if err == nil {
		a.lease = lease
		return now, true
	}
	if busy, ok := errors.AsType[*pool.BusyError](err); ok {
		return busy.Until, true
	}
	waiting := a.tried.RefusedForNow // the round's end is then not the task's
	a.newRound()
	return now.Add(backoff), waiting
}

func (a *assignment) newRound() {
	a.tried = pool.Tried{SentBefore: a.tried.SentBefore}
}

// resume counts a task that an account has already.
func (a *assignment) resume(table *routes.Table, account pool.Account) {
	if a.lease == nil {
		a.lease = table.Resume(account)
	}
}

// report tells what became of the create request, made by a client of this chooser's
// configuration.
func (a *assignment) report(by *pool.Chooser, n subject.TaskName, sent upstream.Submission) {
	if a.lease != nil {
		a.lease.ReportCreate(by, pool.Job{ID: n.ID, Tenant: n.Tenant}, sent)
	}
}

// release returns the slot, or stops waiting for one.
func (a *assignment) release() {
	a.ticket.Leave()
	if a.lease != nil {
		a.lease.Release()
		a.lease = nil
	}
}

// account is the one that the task is tied to; zero for none.
func (a *assignment) account() pool.Account {
	if a.lease == nil {
		return pool.Account{}
	}
	return a.lease.Account()
}

// sentBefore remembers that the request is sent to an account, and reports whether its
// upstream may have seen an earlier one. What another process sent is not known.
func (a *assignment) sentBefore(account pool.Account, attempt uint32) bool {
	known := int(attempt) == len(a.sent)+1
	before := !known && attempt > 1
	for _, name := range a.sent {
		before = before || name == account.Upstream
	}
	a.sent = append(a.sent, account.Upstream)
	return before
}
