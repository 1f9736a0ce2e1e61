package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// leaderTimeout is how long a start waits for a cluster that has no leader just
	// then: electing one after the loss of a node takes some seconds.
	leaderTimeout = time.Minute
	// tryTimeout bounds one try.
	tryTimeout = 5 * time.Second
)

// leaderless are the refusals that end with the next election, or when a node is
// back: there is no leader, this server is not the one, too few peers are online,
// or the stream or consumer is not served just now.
var leaderless = []jetstream.ErrorCode{10005, 10008, 10009, 10118, 10119}

// RetryUntilLeader tries again what JetStream does not answer, or cannot do because the
// cluster has no leader, for up to a minute. A refusal ends it at once. f is
// given a bounded context, and is harmless to repeat.
func (b *Broker) RetryUntilLeader(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderTimeout, fmt.Errorf("%s: JetStream could not do it within %s", what, leaderTimeout))
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := try(ctx, f)
		if err == nil || !passing(err) {
			return err
		}
		b.log.Warn("JetStream does not answer yet", "to", what, "error", err)
		if Wait(ctx, wait) != nil {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func try(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return f(ctx)
}

// Unavailable reports whether an error of any call of JetStream, this package's or
// the client's own, says that it cannot be used now, rather than that the call was
// wrong.
func Unavailable(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code >= 500 {
		return true
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoAnswer) || passing(err)
}

// CutOff reports whether an error of such a call says no more than that a deadline
// passed: nothing was heard that would be JetStream's trouble, or the connection's.
// Whose deadline it was is for the caller to know.
func CutOff(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &api) && !unconnected(err)
}

// Reason is why a call of JetStream failed, in one line for the caller of genbus: it
// names no stream and says nothing twice. The error itself is for the log.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return "JetStream has no room"
	case errors.Is(err, ErrTooLarge):
		return "the message is too large for JetStream"
	case isAny(err, errNotConnected, nats.ErrDisconnected, nats.ErrConnectionClosed, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting):
		return "JetStream is unavailable: not connected to NATS"
	case isAny(err, ErrNoAnswer, context.DeadlineExceeded, nats.ErrTimeout):
		return "JetStream is unavailable: no answer in time"
	default:
		return "JetStream is unavailable"
	}
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// passing reports whether an error may be gone with the next election, or with the
// next connection.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains(leaderless, api.ErrorCode)
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || unconnected(err)
}

// unconnected reports whether there was no connection: a request without one
// is refused by the NATS client itself, as nothing is buffered.
func unconnected(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting)
}
