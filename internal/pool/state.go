package pool

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/genbus/genbus/internal/upstream"
)

// Values of UpstreamState.Breaker.
const (
	BreakerClosed   = "closed"    // jobs go to the upstream
	BreakerOpen     = "open"      // no jobs, or no video creates on routes with several upstreams
	BreakerHalfOpen = "half_open" // one job probes it
)

// UpstreamState is an upstream's state as seen by this process.
type UpstreamState struct {
	Name string
	// Breaker is one of the constants above. Until is when an open breaker lets one job through.
	// Since is when the breaker opened, and no job has succeeded since. It is zero if the breaker is
	// closed.
	Breaker      string
	Since, Until time.Time
	// PausedUntil is the end of a pause that applies to the whole upstream, or zero.
	PausedUntil time.Time
	// Calls counts the conclusive calls of the last five minutes, excluding polls. Failed counts
	// those that failed because of the upstream, or because it refused a key or its account.
	Calls, Failed int
	// LastError is the last of these failures, without the upstream's text.
	// LastErrorAt is zero if there was none.
	LastError   string
	LastErrorAt time.Time
	// Polls counts the polls of the last five minutes. The poll fields correspond to the call
	// fields.
	Polls, PollsFailed int
	LastPollError      string
	LastPollErrorAt    time.Time
	Keys               []KeyState
}

// KeyState is an upstream key's state as seen by this process.
type KeyState struct {
	Name     string // empty for an upstream's only key
	InUse    int    // jobs of this process that use it
	MaxInUse int    // limit of InUse; 0 for none
	Queued   int    // jobs waiting for a slot
	// PausedUntil is the end of a pause that the upstream asked for, and CooldownUntil the end of
	// the cooldown after a refusal. Both are zero if there is none.
	PausedUntil, CooldownUntil time.Time
	// RefusedSince is when the upstream first refused a key that is in a cooldown. No call with the
	// key has succeeded since.
	RefusedSince time.Time
	// Status is the HTTP status that caused the pause or cooldown, or 0.
	Status int
}

// State returns the state of all upstreams, sorted by name.
func (p *Pool) State() []UpstreamState {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	out := make([]UpstreamState, 0, len(p.services))
	for _, s := range p.services {
		out = append(out, s.state(now))
	}
	slices.SortFunc(out, func(a, b UpstreamState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *service) state(now time.Time) UpstreamState {
	out := UpstreamState{Name: s.name, Breaker: BreakerClosed, PausedUntil: future(s.waitUntil, now), LastError: s.trouble, LastErrorAt: s.troubleAt}
	switch s.breaker.State() {
	case gobreaker.StateOpen:
		out.Breaker, out.Since, out.Until = BreakerOpen, s.breaker.since, s.breaker.until
	case gobreaker.StateHalfOpen:
		out.Breaker, out.Since = BreakerHalfOpen, s.breaker.since
	case gobreaker.StateClosed:
		if s.creates.shown {
			out.Breaker, out.Since, out.Until = BreakerOpen, s.creates.since, s.creates.until
		}
	}
	out.Calls, out.Failed = s.recent.sum(now)
	out.Polls, out.PollsFailed = s.polls.sum(now)
	out.LastPollError, out.LastPollErrorAt = s.pollTrouble, s.pollTroubleAt
	for _, k := range s.keys {
		state := KeyState{
			Name: k.id.Key, InUse: k.inUse, MaxInUse: k.maxInUse, Queued: len(k.waiters),
			PausedUntil: future(k.waitUntil, now), CooldownUntil: future(k.coolingUntil, now),
		}
		switch {
		case !state.CooldownUntil.IsZero():
			state.Status, state.RefusedSince = k.refused, k.refusedSince
		case !state.PausedUntil.IsZero() && k.why != nil:
			state.Status = k.why.status
		}
		out.Keys = append(out.Keys, state)
	}
	return out
}

func future(t, now time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}

// called counts a call, unless it is inconclusive about the upstream.
func (s *service) called(err *upstream.Error, now time.Time) {
	if result := health(err); !errors.Is(result, errNothing) {
		s.recent.count(failed(err), now)
	}
}

// Polled counts a poll. Polls do not influence the pool's decisions. err is nil if the upstream
// answered.
func (p *Pool) Polled(name string, err *upstream.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := p.services[name], time.Now()
	if s == nil || err != nil && givenUp(err) {
		return
	}
	s.polls.count(err != nil, now)
	if err != nil {
		s.pollTrouble, s.pollTroubleAt = err.Outline(), now
	}
}

// recentMinutes is how many minutes of calls are counted.
const recentMinutes = 5

// recent counts calls by minute. The zero value is empty.
type recent struct {
	minutes [recentMinutes]struct {
		begin         int64 // Unix minutes
		calls, failed int
	}
}

func (r *recent) count(failed bool, now time.Time) {
	minute := now.Unix() / 60
	m := &r.minutes[minute%recentMinutes]
	if m.begin != minute {
		m.begin, m.calls, m.failed = minute, 0, 0
	}
	m.calls++
	if failed {
		m.failed++
	}
}

func (r *recent) sum(now time.Time) (calls, failed int) {
	for _, m := range r.minutes {
		if m.begin > now.Unix()/60-recentMinutes {
			calls, failed = calls+m.calls, failed+m.failed
		}
	}
	return calls, failed
}
