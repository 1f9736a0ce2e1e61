package pool

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// Waits of a key that the upstream asked to slow down without giving a duration. Each wait is twice
// as long as the one before it.
const (
	firstWait = time.Second
	maxWait   = time.Minute
)

// key is the state of one upstream key. Pool.mu guards it.
type key struct {
	id      UpstreamKey
	service *service
	index   int // in service.keys

	inUse     int
	maxInUse  int       // limit of inUse; 0 for none
	reserved  int       // slots reserved for woken jobs
	waiters   []*Waiter // for a slot, in order of number
	limiter   *rate.Limiter
	perSecond float64 // rate of limiter

	waitUntil    time.Time // end of a pause that the upstream asked for
	why          *pause
	waits        int       // consecutive pauses without a duration
	coolingUntil time.Time // end of the cooldown after a refusal
	refused      int       // HTTP status of the refusal
	refusedSince time.Time // first refusal since the last success
	cooldown     time.Duration
	since        int         // generation that introduced its secret
	back         *time.Timer // fires when the key is usable again; nil until first needed
}

func newKey(s *service, index int, name string, u config.Upstream, generation int) *key {
	k := &key{id: UpstreamKey{Upstream: s.name, Key: name}, service: s, index: index, limiter: rate.NewLimiter(rate.Inf, 0), since: generation}
	k.limit(u)
	return k
}

// limit applies the limits of u. Slots in use still count.
func (k *key) limit(u config.Upstream) {
	k.maxInUse, k.cooldown = u.MaxConcurrent, u.KeyCooldown
	if k.perSecond == u.RatePerSecond {
		return
	}
	k.perSecond, k.limiter = u.RatePerSecond, rate.NewLimiter(rate.Inf, 0)
	if u.RatePerSecond > 0 {
		k.limiter = rate.NewLimiter(rate.Limit(u.RatePerSecond), max(1, int(math.Ceil(u.RatePerSecond))))
	}
}

func (k *key) outUntil() time.Time { return latest(k.waitUntil, k.coolingUntil) }

// take claims a slot for a job. in is the job's waiter, or nil. If no slot is free, take returns
// the earliest time at which there may be one. It ignores the cooldown.
func (k *key) take(in *Waiter, now time.Time) (done func(error), free time.Time) {
	s := k.service
	free = latest(s.breaker.until, s.waitUntil, k.waitUntil)
	switch {
	case !k.full(in):
	case in == nil:
		free = latest(free, now.Add(recheckAfter))
	default:
		free = latest(free, now.Add(recheckSlot))
	}
	if free.After(now) {
		return nil, free
	}
	reserved := k.limiter.ReserveN(now, 1)
	if wait := reserved.DelayFrom(now); wait > 0 {
		reserved.CancelAt(now)
		return nil, now.Add(wait)
	}
	// The breaker is asked last, because a call that it allows must be reported to it.
	done, err := s.breaker.Allow()
	if err != nil {
		reserved.CancelAt(now)
		return nil, now.Add(recheckAfter)
	}
	s.turn = k.index + 1
	return done, time.Time{}
}

// applyBackoff pauses the key or starts its cooldown, as the upstream's error requires. A success
// ends the cooldown and makes the next wait short again, unless the call began before the cooldown
// or during the pause. Reports by clients of a generation older than the key's secret are ignored,
// because those clients used another secret.
func (k *key) applyBackoff(err *upstream.Error, generation int, began, now time.Time) {
	switch {
	case generation < k.since:
	case err == nil:
		k.succeeded(began)
	case err.Scope != upstream.ScopeKey:
	case err.Final:
		if !k.coolingUntil.After(now) {
			k.service.logger.Warn("upstream key refused", "upstream_key", k.id.String(),
				telemetry.KeyHTTPStatus, err.HTTPStatus, telemetry.KeyUpstreamCode, err.Code, "cooldown", k.cooldown)
		}
		if k.coolingUntil.IsZero() {
			k.refusedSince = now
		}
		k.coolingUntil, k.refused = now.Add(k.cooldown), err.HTTPStatus
	case err.RetryAfter > 0:
		k.why = pauseOf(k.id, err)
		k.waitUntil = latest(k.waitUntil, now.Add(err.RetryAfter))
	case !began.Before(k.waitUntil):
		k.why = pauseOf(k.id, err)
		k.waitUntil = now.Add(min(firstWait<<min(k.waits, 6), maxWait))
		k.waits++
	}
}

// requestedPause returns the pause that the upstream asked for, or nil.
func (k *key) requestedPause(now time.Time) *pause {
	switch {
	case k.waitUntil.After(now):
		return k.why
	case k.service.waitUntil.After(now):
		return k.service.why
	default:
		return nil
	}
}

func (k *key) succeeded(began time.Time) {
	if !began.Before(k.waitUntil) {
		k.waits = 0
	}
	if began.After(k.coolingUntil.Add(-k.cooldown)) {
		k.coolingUntil = time.Time{}
	}
}
