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
	// refuse is when callers begin to be refused at once. While a stream elects its leader they
	// wait first, each as long as one request may take: most elections are over by then.
	refuse time.Time
}

var errNoLeader = errors.New("no leader")

// Ready returns nil when JetStream answers, and the reason otherwise. Trouble
// keeps what it found.
func (c *connection) Ready(ctx context.Context) error {
	err := c.look(ctx)
	if err == nil {
		c.trouble.Store(nil)
		return nil
	}
	t := &trouble{err: err, refuse: time.Now()}
	if isLeaderless(err) || errors.Is(err, errNoLeader) {
		t.refuse = t.refuse.Add(PublishTimeout)
	}
	if before := c.trouble.Load(); before != nil && before.refuse.Before(t.refuse) {
		t.refuse = before.refuse
	}
	c.trouble.Store(t)
	return err
}

// Trouble returns at once why JetStream cannot be used now: there is no
// connection, or the last check of Ready failed. An election is no trouble for its first
// PublishTimeout. Code that has a caller to answer calls it first: otherwise each caller
// would wait for its own timeout.
func (c *connection) Trouble() error {
	if !c.nc.IsConnected() {
		return fmt.Errorf("%w: %w", ErrUnavailable, errNotConnected)
	}
	if t := c.trouble.Load(); t != nil && !time.Now().Before(t.refuse) {
		return fmt.Errorf("%w: %w", ErrUnavailable, t.err)
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
			return fmt.Errorf("stream %s: %w", name, errNoLeader)
		}
	}
	return nil
}
