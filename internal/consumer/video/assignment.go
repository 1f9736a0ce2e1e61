package video

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
)

// assignment ties a job to an upstream and one of its keys, from the choice until this process
// drops the job. Before that it records refusals. The zero value is free and does not wait in turn.
// It belongs to the goroutine that works on the job.
type assignment struct {
	slot *pool.Slot
	// waiter is the job's place in the queue for slots.
	waiter *pool.Waiter
	// tried are the keys that refused the job in this round.
	tried pool.Tried
	// sent are the upstreams that this process sent the request to, in order.
	sent []string
}

// choose acquires a slot of a key that the job has not tried. If no key takes the job now, it fails
// with *pool.BusyError or another error of the pool.
func (a *assignment) choose(by *pool.Chooser, retry bool) error {
	if a.slot != nil { // acquired right after a refusal
		return nil
	}
	a.tried.SentBefore = retry
	slot, err := by.AcquireInTurn(&a.tried, a.waiter)
	if errors.Is(err, pool.ErrExhausted) {
		a.newRound()
		slot, err = by.AcquireInTurn(&a.tried, a.waiter)
	}
	if err != nil {
		if _, busy := errors.AsType[*pool.BusyError](err); busy {
			a.newRound() // keys that refused may be free again before busy ones
		}
		return err
	}
	a.slot = slot
	return nil
}

// elsewhere looks for another key for a refused job and returns the time of the next attempt: now
// if a slot is free, or after backoff if the same keys are to be retried. It returns false if none
// is left.
func (a *assignment) elsewhere(by *pool.Chooser, s upstream.Submission, backoff time.Duration) (time.Time, bool) {
	now := time.Now()
	a.release()
	forNow := s.Verdict == upstream.RefusedForNow
	if s.Err.Scope == upstream.ScopeRequest {
		a.newRound()
		return now.Add(backoff), forNow
	}
	a.tried.RefusedForNow = a.tried.RefusedForNow || forNow
	slot, err := by.Acquire(&a.tried)
	if err == nil {
		a.slot = slot
		return now, true
	}
	if busy, ok := errors.AsType[*pool.BusyError](err); ok {
		return busy.Until, true
	}
	waiting := a.tried.RefusedForNow // the end of the round is then not the job's
	a.newRound()
	return now.Add(backoff), waiting
}

func (a *assignment) newRound() {
	a.tried = pool.Tried{SentBefore: a.tried.SentBefore}
}

// resume counts a job that was submitted with a key.
func (a *assignment) resume(table *routes.Table, key pool.UpstreamKey) {
	if a.slot == nil {
		a.slot = table.Resume(key)
	}
}

// report reports the outcome of a create request by a client of this chooser's configuration.
func (a *assignment) report(by *pool.Chooser, n subject.JobName, sent upstream.Submission) {
	if a.slot != nil {
		a.slot.ReportCreate(by, pool.Job{ID: n.ID, Tenant: n.Tenant}, sent)
	}
}

// release returns the slot, or stops waiting for one.
func (a *assignment) release() {
	a.waiter.Leave()
	if a.slot != nil {
		a.slot.Release()
		a.slot = nil
	}
}

func (a *assignment) key() pool.UpstreamKey {
	if a.slot == nil {
		return pool.UpstreamKey{}
	}
	return a.slot.UpstreamKey()
}

// sentBefore records that the request is sent with a key, and reports whether its upstream may have
// seen an earlier one. If another process made an attempt, it may.
func (a *assignment) sentBefore(key pool.UpstreamKey, attempt uint32) bool {
	known := int(attempt) == len(a.sent)+1
	before := !known && attempt > 1
	for _, name := range a.sent {
		before = before || name == key.Upstream
	}
	a.sent = append(a.sent, key.Upstream)
	return before
}
