package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trouble records why the last check by Ready failed.
type trouble struct {
	err error
	// refuse is the time from which Trouble returns err.
	refuse time.Time
}

var errNoLeader = errors.New("no leader")

// after returns the new trouble when another check has failed. t is nil if the previous check
// succeeded. Callers may wait up to PublishTimeout for an election, but are refused immediately if
// JetStream does not answer. Further failed checks never postpone refuse, so callers that are
// already refused do not start to wait again.
func (t *trouble) after(err error, now time.Time) *trouble {
	next := &trouble{err: err, refuse: now}
	if isElecting(err) || errors.Is(err, errNoLeader) {
		next.refuse = now.Add(PublishTimeout)
	}
	if t != nil && t.refuse.Before(next.refuse) {
		next.refuse = t.refuse
	}
	return next
}

// Ready returns nil if JetStream is usable, and otherwise the reason why it is not. Trouble uses
// the result of the last call.
func (b *Broker) Ready(ctx context.Context) error {
	err := b.look(ctx)
	if err == nil {
		b.trouble.Store(nil)
		return nil
	}
	b.trouble.Store(b.trouble.Load().after(err, time.Now()))
	return err
}

// Trouble returns, without blocking, why JetStream is unusable, or nil. It returns an error if a
// connection is down, if the embedded server's disk is full, or if the last Ready failed. After a
// failure due to an election, it returns nil for up to PublishTimeout, because callers may wait for
// a leader. Call Trouble before serving a request, so that the caller gets an error instead of a
// timeout.
func (b *Broker) Trouble() error {
	if !b.isConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if err := b.diskFull(); err != nil {
		return err
	}
	if t := b.trouble.Load(); t != nil && !time.Now().Before(t.refuse) {
		return fmt.Errorf("%w: %w", ErrUnavailable, t.err)
	}
	return nil
}

func (b *Broker) isConnected() bool { return b.writer.link.isUp() && b.reader.link.isUp() }

func (b *Broker) look(ctx context.Context) error {
	if !b.isConnected() {
		return errNotConnected
	}
	if err := b.writer.link.checkServer(); err != nil {
		return err
	}
	// The log comes first, because its answer also sets the clock, which must work even if another
	// stream fails.
	for _, name := range []string{b.names.Tasks(), b.names.Work(), b.names.Wait()} {
		info, err := b.timedInfo(ctx, name)
		if err != nil {
			return err // names the stream
		}
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s: %w", name, errNoLeader)
		}
	}
	return nil
}
