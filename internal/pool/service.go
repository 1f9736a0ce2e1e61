package pool

import (
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// recheckAfter is when a job may look again for a slot when it is not known when
// it will be free.
const recheckAfter = time.Second

// service is the state of one upstream. The pool's mutex guards it.
type service struct {
	name      string
	keys      []*key
	turn      int // index of the key whose turn it is
	waitUntil time.Time
	why       *pause
	breaker   *breaker
	creates   createBreaker
	breaks    config.Breaker // what the breaker was made from
	metrics   *telemetry.UpstreamMetrics
	logger    *slog.Logger
	trouble   string    // the last failure that was the upstream's own
	troubleAt time.Time // when that was
	recent    recent

	polls         recent
	pollTrouble   string // the last poll that failed
	pollTroubleAt time.Time
	told          time.Time // when the log heard of one last
}

// tellEvery is how often the log hears of an upstream that fails.
const tellEvery = time.Minute

// noteFailure tells the log of an upstream that fails, and of the job that has met it: what
// waits for the upstream says nothing. An answer is told by its status and code alone,
// because its text may repeat a prompt.
func (s *service) noteFailure(err *upstream.Error, job Job, route string, now time.Time) {
	s.trouble, s.troubleAt = err.Outline(), now
	if now.Sub(s.told) < tellEvery {
		return
	}
	s.told = now
	s.logger.Warn("upstream call failed", telemetry.KeyJobID, job.ID, telemetry.KeyTenant, job.Tenant, telemetry.KeyRoute, route,
		telemetry.KeyUpstream, s.name, telemetry.KeyError, s.trouble)
}

func newService(name string, u config.Upstream, generation int, o Options, announce func(peerNotification)) *service {
	s := &service{name: name, metrics: o.Metrics.Upstream(name), logger: o.Logger}
	s.breaker, s.breaks = newBreaker(s, u.Breaker), u.Breaker
	s.creates = createBreaker{service: s, announce: announce}
	for i, c := range u.Credentials() {
		s.keys = append(s.keys, newKey(s, i, c.Name, u, generation))
	}
	return s
}

// key finds a key by its name; nil when there is none.
func (s *service) key(name string) *key {
	for _, k := range s.keys {
		if k.id.Key == name {
			return k
		}
	}
	return nil
}

// inTurn gives the keys, beginning with the one whose turn it is.
func (s *service) inTurn(yield func(*key) bool) {
	for i := range s.keys {
		if !yield(s.keys[(s.turn+i)%len(s.keys)]) {
			return
		}
	}
}

// applyBackoff keeps jobs away for as long as the upstream asked.
func (s *service) applyBackoff(err *upstream.Error, now time.Time) {
	if err == nil || err.Scope != upstream.ScopeUpstream || err.Final {
		return
	}
	if err.RetryAfter > 0 {
		s.why = pauseOf(UpstreamKey{Upstream: s.name}, err)
		s.waitUntil = latest(s.waitUntil, now.Add(err.RetryAfter))
	}
}

// showBreaker sets the breaker gauge.
func (s *service) showBreaker() { s.metrics.BreakerOpen(s.breaker.open || s.creates.shown) }

// countOut sets the gauge of keys that are out.
func (s *service) countOut(now time.Time) {
	out := 0
	for _, k := range s.keys {
		if k.outUntil().After(now) {
			out++
		}
	}
	s.metrics.KeysOut(out)
}
