package broker

import (
	"context"
	"errors"
	"fmt"
)

// Ready returns nil when JetStream answers, and the reason otherwise. Trouble
// keeps what it found.
func (c *connection) Ready(ctx context.Context) error {
	err := c.look(ctx)
	if err != nil {
		c.trouble.Store(&err)
	} else {
		c.trouble.Store(nil)
	}
	return err
}

// Trouble returns at once why JetStream cannot be used now: there is no
// connection, or the last check of Ready failed. Code that has a caller to answer
// calls it first: otherwise each caller would wait for its own timeout. It
// is nil as long as nothing is known to be wrong.
func (c *connection) Trouble() error {
	if !c.nc.IsConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if err := c.trouble.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, *err)
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
