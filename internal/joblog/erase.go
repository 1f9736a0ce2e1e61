package joblog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Erase removes the events of an ended job up to its terminal event e, and the feed copy. It keeps
// everything that a later job with the same ID has written. It may be repeated.
func (l *Log) Erase(ctx context.Context, e Entry) error {
	stream, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return fmt.Errorf("erase %s: %w", e.Job.GetId(), err)
	}
	// Erase the feed copy first, so that after a crash the job can still be found and erased. Erase
	// it again at the end, in case it was stored late.
	if err := l.eraseFeedCopy(ctx, e); err != nil {
		return err
	}
	n := e.Name()
	events := l.b.Names().Task(n.Kind, n.Tenant, n.ID)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(events), jetstream.WithPurgeSequence(e.Seq+1)); err != nil {
		return fmt.Errorf("erase %s: %w", n.ID, err)
	}
	return l.eraseFeedCopy(ctx, e)
}

func (l *Log) eraseFeedCopy(ctx context.Context, e Entry) error {
	n := e.Name()
	done := l.b.Names().Done(n.Kind, n.Tenant, task.StatusWord(e.Job.GetStatus()), n.ID)
	m, err := l.b.Last(ctx, l.b.Names().Tasks(), done)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return nil
	case err != nil:
		return fmt.Errorf("erase %s: %w", n.ID, err)
	case header(m.Header, subject.HeaderCEID) != e.ID():
		return nil // belongs to a later job
	}
	if _, err := l.b.Delete(ctx, l.b.Names().Tasks(), m.Seq); err != nil {
		return fmt.Errorf("erase %s: %w", n.ID, err)
	}
	return nil
}
