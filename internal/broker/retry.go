package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// leaderTimeout is how long a start waits for a cluster that has no leader just
	// then: electing one after the loss of a node takes some seconds.
	leaderTimeout = time.Minute
	// tryTimeout bounds one try.
	tryTimeout = 5 * time.Second
)

// RetryUntilLeader tries again what JetStream does not answer, or cannot do because the
// cluster has no leader, for up to a minute. A refusal ends it at once. f is
// given a bounded context, and is harmless to repeat.
func (a *admin) RetryUntilLeader(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, leaderTimeout, fmt.Errorf("%s: JetStream did not finish within %s", what, leaderTimeout))
	defer cancel()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := try(ctx, f)
		if err == nil || !passing(err) {
			return err
		}
		a.log.Warn("waiting for JetStream", "to", what, "error", err)
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

// Wait waits for d, or until ctx ends, whose cause it returns.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
