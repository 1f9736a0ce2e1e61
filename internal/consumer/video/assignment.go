package video

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream"
)

// assignment holds a job's upstream slot and the keys that have refused the job. The zero value has
// no slot and no place in the queue. Only the goroutine that works on the job may use it.
type assignment struct {
	slot *pool.Slot
	// waiter is the job's place in the queue for slots.
	waiter *pool.Waiter
	// tried records the keys that refused the job in this round.
	tried pool.Tried
	// sent lists the upstreams to which this process sent the request, in order.
	sent []string
}

// choose acquires a slot of a key that the job has not tried. If no key accepts the job now, it
// returns a *pool.BusyError or another error of package pool.
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
			a.newRound() // keys that refused the job may accept it before the busy ones do
		}
		return err
	}
	a.slot = slot
	return nil
}

// elsewhere looks for another key for a refused job and returns the time of the next attempt. This
// is now if a slot is free, later if all other keys are busy, and after backoff if the same keys
// must be retried. It returns false if no key is left to try.
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
	waiting := a.tried.RefusedForNow // if true, the end of the round does not end the job
	a.newRound()
	return now.Add(backoff), waiting
}

func (a *assignment) newRound() {
	a.tried = pool.Tried{SentBefore: a.tried.SentBefore}
}

// resume counts an already submitted job against its key.
func (a *assignment) resume(table *routes.Table, key pool.UpstreamKey) {
	if a.slot == nil {
		a.slot = table.Resume(key)
	}
}

// report reports the outcome of a create request to the pool. by must belong to the configuration
// that the request used.
func (a *assignment) report(by *pool.Chooser, n subject.JobName, sent upstream.Submission) {
	if a.slot != nil {
		a.slot.ReportCreate(by, pool.Job{ID: n.ID, Tenant: n.Tenant}, sent)
	}
}

// release releases the slot and stops waiting for one.
func (a *assignment) release() {
	a.waiter.Cancel()
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

// sentBefore records that the request is about to be sent with a key. It reports whether the key's
// upstream may have received the request before, which is possible whenever another process made an
// attempt.
func (a *assignment) sentBefore(key pool.UpstreamKey, attempt uint32) bool {
	known := int(attempt) == len(a.sent)+1
	before := !known && attempt > 1
	for _, name := range a.sent {
		before = before || name == key.Upstream
	}
	a.sent = append(a.sent, key.Upstream)
	return before
}
