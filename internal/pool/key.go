package pool

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// How long a key waits that was told to slow down, but not for how long. The
// wait doubles each time.
const (
	firstWait = time.Second
	maxWait   = time.Minute
)

// key is the state of one upstream key. The pool's mutex guards it.
type key struct {
	id      UpstreamKey
	service *service
	index   int // in service.keys

	inHand    int
	most      int       // of inHand; 0 for no limit
	reserved  int       // slots, for jobs that were woken
	waiting   []*Waiter // for a slot, by number
	limiter   *rate.Limiter
	perSecond float64 // what the limiter was made from

	waitUntil    time.Time // told to slow down
	why          *pause
	waits        int       // in a row, of those whose length was not told
	coolingUntil time.Time // refused
	refused      int       // with this HTTP status
	cooldown     time.Duration
	since        int         // the generation that brought its secret
	back         *time.Timer // fires when the key is no longer out; nil until it first is
}

func newKey(s *service, index int, name string, u config.Upstream, generation int) *key {
	k := &key{id: UpstreamKey{Upstream: s.name, Key: name}, service: s, index: index, limiter: rate.NewLimiter(rate.Inf, 0), since: generation}
	k.limit(u)
	return k
}

// limit bounds what the key is used for. What it holds counts on.
func (k *key) limit(u config.Upstream) {
	k.most, k.cooldown = u.MaxConcurrent, u.KeyCooldown
	if k.perSecond == u.RatePerSecond {
		return
	}
	k.perSecond, k.limiter = u.RatePerSecond, rate.NewLimiter(rate.Inf, 0)
	if u.RatePerSecond > 0 {
		k.limiter = rate.NewLimiter(rate.Limit(u.RatePerSecond), max(1, int(math.Ceil(u.RatePerSecond))))
	}
}

// outUntil is when the key is neither waiting nor cooling down any more.
func (k *key) outUntil() time.Time { return latest(k.waitUntil, k.coolingUntil) }

// take takes a place for one job, of that waiter where it waits in turn. Without a place it
// gives the moment when there may be one; a cooldown is no hindrance here.
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
	// Last, because what the breaker has let through must report to it.
	done, err := s.breaker.Allow()
	if err != nil {
		reserved.CancelAt(now)
		return nil, now.Add(recheckAfter)
	}
	s.turn = k.index + 1
	return done, time.Time{}
}

// applyBackoff sets the key aside where the upstream did, and takes it back when a call
// went well. What a call says that began before the key was set aside changes
// nothing about that, and a client of a generation before that of the key's secret has
// called with another secret.
func (k *key) applyBackoff(err *upstream.Error, generation int, began, now time.Time) {
	switch {
	case generation < k.since:
	case err == nil:
		k.wentWell(began)
	case err.Scope != upstream.ScopeKey:
	case err.Final:
		if !k.coolingUntil.After(now) {
			k.service.logger.Warn("upstream key refused", "upstream_key", k.id.String(),
				telemetry.KeyHTTPStatus, err.HTTPStatus, telemetry.KeyUpstreamCode, err.Code, "cooldown", k.cooldown)
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

// told says for what the key waits; nil when it is nothing that the upstream
// asked for.
func (k *key) told(now time.Time) *pause {
	switch {
	case k.waitUntil.After(now):
		return k.why
	case k.service.waitUntil.After(now):
		return k.service.why
	default:
		return nil
	}
}

func (k *key) wentWell(began time.Time) {
	if !began.Before(k.waitUntil) {
		k.waits = 0
	}
	if began.After(k.coolingUntil.Add(-k.cooldown)) {
		k.coolingUntil = time.Time{}
	}
}
