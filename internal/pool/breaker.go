package pool

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// Results of a call as reported to a breaker. A nil result is a success.
var (
	errTrouble = errors.New("the upstream is failing")
	errNothing = errors.New("the call says nothing about the upstream")
)

// breaker withholds jobs from a failing upstream. Pool.mu guards it.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	service *service
	openFor time.Duration
	// until is when an open breaker lets one job through.
	until time.Time
	open  bool      // opened, and no job has succeeded since
	since time.Time // when open was set
}

func newBreaker(s *service, c config.Breaker) *breaker {
	b := &breaker{service: s, openFor: c.OpenFor}
	b.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:    s.name,
		Timeout: c.OpenFor,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return c.Failures > 0 && int64(counts.ConsecutiveFailures) >= int64(c.Failures)
		},
		IsExcluded:    func(err error) bool { return errors.Is(err, errNothing) },
		OnStateChange: b.changed,
	})
	return b
}

// changed is called by gobreaker within Allow, State and the report of a call.
func (b *breaker) changed(name string, _, to gobreaker.State) {
	if b.service.breaker != b {
		return // replaced by a reload
	}
	switch to {
	case gobreaker.StateOpen:
		// The breaker is still open when exactly openFor has passed, so add a nanosecond.
		now := time.Now()
		b.until = now.Add(b.openFor + 1)
		if !b.open {
			b.open, b.since = true, now
		}
		b.service.showBreaker()
		b.service.logger.Warn("upstream breaker opened", "upstream", name, "for", b.openFor.String(), telemetry.KeyError, b.service.trouble)
	case gobreaker.StateClosed:
		b.open = false
		b.service.showBreaker()
		b.service.logger.Info("upstream breaker closed", "upstream", name)
	case gobreaker.StateHalfOpen: // nothing to report; lasts for one job
	}
}

// givenUp reports whether a call ended because its context ended.
func givenUp(err *upstream.Error) bool {
	return err.Code == chat.CodeCancelled || errors.Is(err, context.Canceled)
}

// health returns the result of a call in the breaker's terms. A refusal shows that the upstream
// works, unless it concerns the upstream as a whole and is temporary.
func health(err *upstream.Error) error {
	switch {
	case err == nil:
		return nil
	case givenUp(err):
		return errNothing
	case err.Unrouted(): // from a server in front, or about a path
		return errNothing
	case err.HTTPStatus == 0 && !err.Written && err.Final:
		return errNothing // could not be sent to any upstream
	case err.HTTPStatus == 0:
		return errTrouble // not reached, or no answer in time
	case err.Final && err.Reported, err.Scope != upstream.ScopeUpstream:
		return nil
	default:
		return errTrouble
	}
}

// failed reports whether a call counts as failed in the upstream's state. This includes a refused
// key or account. It does not count for the breaker, because the upstream's other keys may work, and
// without them jobs fail at once instead of waiting.
func failed(err *upstream.Error) bool {
	return errors.Is(health(err), errTrouble) || err != nil && err.Denial != upstream.NotDenied
}
