package broker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trouble is what the looks of Ready have found without a good one in between.
type trouble struct {
	last  error
	since time.Time // of the first of them
}

// troubleAfter is how long looks fail until callers are refused at once. Until then each of
// them waits as long as one request may take: most elections of a leader are over by then.
const troubleAfter = PublishTimeout

// Ready returns nil when JetStream answers, and the reason otherwise. Trouble
// keeps what it found.
func (c *connection) Ready(ctx context.Context) error {
	err := c.look(ctx)
	if err == nil {
		c.trouble.Store(nil)
		return nil
	}
	t := &trouble{last: err, since: time.Now()}
	if before := c.trouble.Load(); before != nil {
		t.since = before.since
	}
	c.trouble.Store(t)
	return err
}

// Trouble returns at once why JetStream cannot be used now: there is no
// connection, or Ready has failed for longer than an election mostly takes. Code that has a
// caller to answer calls it first: otherwise each caller would wait for its own timeout.
func (c *connection) Trouble() error {
	if !c.nc.IsConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if t := c.trouble.Load(); t != nil && time.Since(t.since) >= troubleAfter {
		return fmt.Errorf("%w: %w", ErrUnavailable, t.last)
	}
	return nil
}

func (c *connection) look(ctx context.Context) error {
	if !c.nc.IsConnected() {
		return errors.New("not connected to NATS")
	}
	// The log first: its answer is the one that the clock is compared with, and what is
	// wrong with another stream must not keep that from us.
	for _, name := range []string{c.names.Tasks(), c.names.Work(), c.names.Wait()} {
		info, err := c.timedInfo(ctx, name)
		if err != nil {
			return err // it names the stream
		}
		if info.Cluster != nil && info.Cluster.Leader == "" {
			return fmt.Errorf("stream %s has no leader", name)
		}
	}
	return nil
}
