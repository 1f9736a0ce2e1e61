package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// leaderTimeout bounds the wait for a leader. An election after the loss of a node takes
	// seconds.
	leaderTimeout = time.Minute
	tryTimeout    = 5 * time.Second
)

// RetryUntilLeader retries f for up to a minute while JetStream does not answer or has no leader.
// It returns any other error immediately. Each call of f has a timeout, and f must be safe to
// repeat. what describes f in logs and errors.
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

// Wait blocks for d. If ctx ends first, it returns the cause of ctx.
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
