package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trouble is why the last look of Ready failed.
type trouble struct {
	err error
	// refuse is from when on callers are refused without a request to JetStream.
	refuse time.Time
}

var errNoLeader = errors.New("no leader")

// after returns the trouble after another look that failed; t is nil after a good one. Callers
// wait for an election that JetStream tells of, each as long as a request may take: the leader
// mostly is there by then. After a look without an answer they are refused at once.
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

// Ready returns nil when JetStream answers, and the reason otherwise. Trouble
// keeps what it found.
func (b *Broker) Ready(ctx context.Context) error {
	err := b.look(ctx)
	if err == nil {
		b.trouble.Store(nil)
		return nil
	}
	b.trouble.Store(b.trouble.Load().after(err, time.Now()))
	return err
}

// Trouble returns at once why JetStream cannot be used now: there is no
// connection, or the last look of Ready failed and callers need not wait for an election. Code
// that has a caller to answer calls it first: otherwise each caller would wait for its own
// timeout.
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

// isConnected reports whether JetStream can be written to and read.
func (b *Broker) isConnected() bool { return b.writer.link.isUp() && b.reader.link.isUp() }

func (b *Broker) look(ctx context.Context) error {
	if !b.isConnected() {
		return errNotConnected
	}
	if err := b.writer.link.checkPayload(); err != nil {
		return err
	}
	// The log first: its answer is the one that the clock is compared with, and what is
	// wrong with another stream must not keep that from us.
	for _, name := range []string{b.names.Tasks(), b.names.Work(), b.names.Wait()} {
		info, err := b.timedInfo(ctx, name)
		if err != nil {
			return err // it names the stream
		}
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s: %w", name, errNoLeader)
		}
	}
	return nil
}
