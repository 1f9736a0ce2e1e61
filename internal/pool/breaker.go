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

// What a call can tell a breaker, in addition to nil for a success.
var (
	errTrouble = errors.New("the upstream is failing")
	errNothing = errors.New("the call says nothing about the upstream")
)

// breaker keeps jobs from an upstream that fails. The pool's mutex guards it.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	service *service
	openFor time.Duration
	// until is when an open breaker lets one job through.
	until time.Time
	open  bool // opened, and no job succeeded since
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

// changed is called within Allow, State and the report of a call.
func (b *breaker) changed(name string, _, to gobreaker.State) {
	if b.service.breaker != b {
		return // a reload has replaced it
	}
	switch to {
	case gobreaker.StateOpen:
		// One more nanosecond: at the very end of its time the breaker is still
		// open.
		b.until = time.Now().Add(b.openFor + 1)
		b.open = true
		b.service.showBreaker()
		b.service.logger.Warn("upstream breaker opened", "upstream", name, "for", b.openFor.String(), telemetry.KeyError, b.service.trouble)
	case gobreaker.StateClosed:
		b.open = false
		b.service.showBreaker()
		b.service.logger.Info("upstream breaker closed", "upstream", name)
	case gobreaker.StateHalfOpen: // not open to everybody yet
	}
}

// givenUp reports whether a call ended because its context had.
func givenUp(err *upstream.Error) bool {
	return err.Code == chat.CodeCancelled || errors.Is(err, context.Canceled)
}

// health is what a call says about its upstream, in the breaker's terms: a
// refusal shows that the upstream works, unless it is about the upstream and
// may pass.
func health(err *upstream.Error) error {
	switch {
	case err == nil:
		return nil
	case givenUp(err):
		return errNothing
	case err.HTTPStatus == 0 && !err.Written && err.Final:
		return errNothing // it could not be sent to anybody
	case err.HTTPStatus == 0:
		return errTrouble // not reached, or no answer in time
	case err.Final && err.Said, err.Scope != upstream.ScopeUpstream:
		return nil
	default:
		return errTrouble
	}
}
