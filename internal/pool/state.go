package pool

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/genbus/genbus/internal/upstream"
)

// Breaker words of an UpstreamState.
const (
	BreakerClosed   = "closed"    // jobs go to the upstream
	BreakerOpen     = "open"      // no jobs, or no video creates of routes with another upstream
	BreakerHalfOpen = "half_open" // one does, to try it
)

// UpstreamState is what this process knows of an upstream.
type UpstreamState struct {
	Name string
	// Breaker is one of the breaker words; Until is when an open one lets one job through.
	Breaker string
	Until   time.Time
	// PausedUntil is the end of a pause that the upstream has asked for as a whole; zero for none.
	PausedUntil time.Time
	// Calls are those of the last five minutes that said how the upstream is, and Failed those
	// of them that failed because of it. Polls are not among them.
	Calls, Failed int
	// LastError is the last failure that was the upstream's own, without its words; LastErrorAt
	// is zero where there was none.
	LastError   string
	LastErrorAt time.Time
	// Polls are those of the last five minutes, and the rest as of the calls.
	Polls, PollsFailed int
	LastPollError      string
	LastPollErrorAt    time.Time
	Keys               []KeyState
}

// KeyState is what this process knows of one key of an upstream.
type KeyState struct {
	Name   string // empty for an only key
	InHand int    // jobs that this process has with it
	Most   int    // of them; 0 for no limit
	Queued int    // jobs that wait for a place with it
	// PausedUntil is the end of a pause that the upstream has asked for, and CooldownUntil that
	// of the time after it has refused the key; zero for none.
	PausedUntil, CooldownUntil time.Time
	// Status is the HTTP status that the pause or the cooldown came with; 0 for none.
	Status int
}

// State is what this process knows of all upstreams, by name.
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
		out.Breaker, out.Until = BreakerOpen, s.breaker.until
	case gobreaker.StateHalfOpen:
		out.Breaker = BreakerHalfOpen
	case gobreaker.StateClosed:
		if s.creates.shown {
			out.Breaker, out.Until = BreakerOpen, s.creates.until
		}
	}
	out.Calls, out.Failed = s.recent.sum(now)
	out.Polls, out.PollsFailed = s.polls.sum(now)
	out.LastPollError, out.LastPollErrorAt = s.pollTrouble, s.pollTroubleAt
	for _, k := range s.keys {
		state := KeyState{
			Name: k.id.Key, InHand: k.inHand, Most: k.most, Queued: len(k.waiting),
			PausedUntil: future(k.waitUntil, now), CooldownUntil: future(k.coolingUntil, now),
		}
		switch {
		case !state.CooldownUntil.IsZero():
			state.Status = k.refused
		case !state.PausedUntil.IsZero() && k.why != nil:
			state.Status = k.why.status
		}
		out.Keys = append(out.Keys, state)
	}
	return out
}

// future is t where it is still to come, and else zero.
func future(t, now time.Time) time.Time {
	if t.After(now) {
		return t
	}
	return time.Time{}
}

// called counts a call by what it said about the upstream.
func (s *service) called(err *upstream.Error, now time.Time) {
	if said := health(err); !errors.Is(said, errNothing) {
		s.recent.count(errors.Is(said, errTrouble), now)
	}
}

// Polled counts a poll, which changes nothing of what the pool decides. err is nil for one that
// was answered.
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

// recentMinutes is how long calls are counted.
const recentMinutes = 5

// recent counts calls by minute. The zero value has none.
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
