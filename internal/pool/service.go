package pool

import (
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// recheckAfter is how long a job waits before it looks for a slot again, if the time at which one
// becomes free is unknown.
const recheckAfter = time.Second

// service is the state of one upstream. Pool.mu guards it.
type service struct {
	name      string
	keys      []*key
	turn      int // index of the key whose turn it is
	waitUntil time.Time
	why       *pause
	breaker   *breaker
	creates   createBreaker
	breaks    config.Breaker // configuration of breaker
	metrics   *telemetry.UpstreamMetrics
	logger    *slog.Logger
	trouble   string    // last failure caused by the upstream
	troubleAt time.Time // time of trouble
	recent    recent

	usage usageOption

	polls         recent
	pollTrouble   string // last failed poll
	pollTroubleAt time.Time
	loggedAt      time.Time // time of the last log entry about a failure
}

// logEvery is the minimum interval between log entries about a failing upstream.
const logEvery = time.Minute

// noteFailure logs a failing upstream with the affected job, because jobs that wait for the
// upstream log nothing. It logs only the status and code of a response, because the text may repeat
// a prompt.
func (s *service) noteFailure(err *upstream.Error, job Job, route string, now time.Time) {
	s.trouble, s.troubleAt = err.Outline(), now
	if now.Sub(s.loggedAt) < logEvery {
		return
	}
	s.loggedAt = now
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

func (s *service) key(name string) *key {
	for _, k := range s.keys {
		if k.id.Key == name {
			return k
		}
	}
	return nil
}

// inTurn yields the keys, starting with the one whose turn it is.
func (s *service) inTurn(yield func(*key) bool) {
	for i := range s.keys {
		if !yield(s.keys[(s.turn+i)%len(s.keys)]) {
			return
		}
	}
}

// applyBackoff pauses the upstream if its response asked for a pause.
func (s *service) applyBackoff(err *upstream.Error, now time.Time) {
	if err == nil || err.Scope != upstream.ScopeUpstream || err.Final {
		return
	}
	if err.RetryAfter > 0 {
		s.why = pauseOf(UpstreamKey{Upstream: s.name}, err)
		s.waitUntil = latest(s.waitUntil, now.Add(err.RetryAfter))
	}
}

func (s *service) showBreaker() { s.metrics.BreakerOpen(s.breaker.open || s.creates.shown) }

// countOut updates the gauge of unusable keys.
func (s *service) countOut(now time.Time) {
	out := 0
	for _, k := range s.keys {
		if k.outUntil().After(now) {
			out++
		}
	}
	s.metrics.KeysOut(out)
}
