package joblog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// NotifyAll tells f of the last event of every job that the log has, as an observer is
// told at a start, and returns when it has. It reads the headers of them all. They are those
// that the replica has which reads them: one that is behind tells of an earlier event of a
// job, and of those after it as far as they come meanwhile.
func (l *Log) NotifyAll(ctx context.Context, f func(Notice)) error {
	c, err := lastEvents(ctx, l.b)
	if err != nil {
		return fmt.Errorf("read the last event of every job: %w", err)
	}
	if c.CachedInfo().NumPending == 0 {
		return nil
	}
	all, err := c.Messages()
	if err != nil {
		return fmt.Errorf("read the last event of every job: %w", err)
	}
	defer all.Stop()
	for {
		m, err := all.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read the last event of every job: %w", err)
		}
		if n, err := l.b.Names().ParseTask(m.Subject()); err == nil {
			f(notice(n, m.Headers()))
		}
		if of, err := m.Metadata(); err == nil && of.NumPending == 0 {
			return nil
		}
	}
}
