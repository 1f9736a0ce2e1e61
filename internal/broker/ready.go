package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trouble is the reason why the last check by Ready failed.
type trouble struct {
	err error
	// refuse is the time from which callers are refused without a request to JetStream.
	refuse time.Time
}

var errNoLeader = errors.New("no leader")

// after returns the trouble after another failed check; t is nil if the previous one succeeded.
// Callers may wait PublishTimeout for an election, and are refused at once if JetStream did not
// answer. refuse never moves later, so that refused callers do not wait again.
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

// Ready returns nil if JetStream answers, and the reason otherwise. Trouble reuses its result.
func (b *Broker) Ready(ctx context.Context) error {
	err := b.look(ctx)
	if err == nil {
		b.trouble.Store(nil)
		return nil
	}
	b.trouble.Store(b.trouble.Load().after(err, time.Now()))
	return err
}

// Trouble returns, without blocking, why JetStream is unusable: a connection is down, the disk of
// the embedded server is full, or the last Ready failed and callers need not wait for an election.
// Call it before serving a request, so that the caller does not run into its own timeout.
func (b *Broker) Trouble() error {
	if !b.isConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if err := b.cannotStore(); err != nil {
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
	if err := b.writer.link.checkPayload(); err != nil {
		return err
	}
	// The log comes first: its answer sets the clock, which must work even if another stream fails.
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
