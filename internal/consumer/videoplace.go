package consumer

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/upstream"
)

// place is a task's place with an upstream and one of its keys, from the choice
// until this process lets the task go. Before that it remembers who has refused
// the task. The zero value has no place. Only the goroutine at work uses it.
type place struct {
	lease *pool.Lease
	// tried are the accounts that refused the task in this round.
	tried pool.Tried
	// waiting is true when one of them refused for now: the round's end is then
	// not the task's.
	waiting bool
	// sent are the upstreams that this process sent the request to, in order.
	sent []string
}

// choose takes a place with an account that the task has not tried. It reports
// false with an outcome when nobody takes the task now.
func (j *videoJob) choose() (Outcome, bool) {
	if j.place.lease != nil { // taken right after a refusal
		return Outcome{}, true
	}
	lease, err := j.Accounts.Acquire(&j.place.tried)
	if errors.Is(err, pool.ErrExhausted) {
		j.place.newRound()
		lease, err = j.Accounts.Acquire(&j.place.tried)
	}
	var busy *pool.BusyError
	switch {
	case err == nil:
		j.place.lease = lease
		return Outcome{}, true
	case errors.As(err, &busy):
		return Hold(busy.Until), false
	default:
		return HoldFor(retryLog), false
	}
}

// elsewhere looks who else may take a task that was refused, and gives the time
// of the next try: now where somebody does. It is false when nobody will.
func (j *videoJob) elsewhere(s upstream.Submission) (time.Time, bool) {
	p, now := &j.place, time.Now()
	p.leave()
	forNow := s.Verdict == upstream.RefusedForNow
	if s.Err.Scope == upstream.ScopeRequest {
		p.newRound()
		return now.Add(j.backoff(s.Err)), forNow
	}
	p.waiting = p.waiting || forNow
	lease, err := j.Accounts.Acquire(&p.tried)
	var busy *pool.BusyError
	switch {
	case err == nil:
		p.lease = lease
		return now, true
	case errors.As(err, &busy):
		return busy.Until, true
	}
	waiting := p.waiting
	p.newRound()
	return now.Add(j.backoff(s.Err)), waiting
}

func (p *place) newRound() { p.tried, p.waiting = pool.Tried{}, false }

// resume counts a task that an account has already.
func (p *place) resume(table *routes.Table, a pool.Account) {
	if p.lease == nil {
		p.lease = table.Resume(a)
	}
}

// report tells what became of the create request.
func (p *place) report(err *upstream.Error) {
	if p.lease != nil {
		p.lease.Report(err)
	}
}

// leave gives the place back.
func (p *place) leave() {
	if p.lease != nil {
		p.lease.Release()
		p.lease = nil
	}
}

// sentBefore remembers that the request is sent to an account, and reports
// whether its upstream may have seen an earlier one. What another process sent is
// not known.
func (p *place) sentBefore(a pool.Account, attempt uint32) bool {
	known := int(attempt) == len(p.sent)+1
	before := !known && attempt > 1
	for _, name := range p.sent {
		before = before || name == a.Upstream
	}
	p.sent = append(p.sent, a.Upstream)
	return before
}

func (p *place) upstream() string {
	if p.lease == nil {
		return ""
	}
	return p.lease.Account().Upstream
}

func (p *place) key() string {
	if p.lease == nil {
		return ""
	}
	return p.lease.Account().Key
}
