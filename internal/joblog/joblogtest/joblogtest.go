// Package joblogtest reads the job log independently of package joblog.
package joblogtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// History returns all events of a job, in order, as read from the stream's leader.
func History(ctx context.Context, b *broker.Broker, n subject.JobName) ([]joblog.Entry, error) {
	var out []joblog.Entry
	names := b.Names()
	for seq := uint64(1); ; {
		m, err := b.Next(ctx, names.Tasks(), names.Task(n.Kind, n.Tenant, n.ID), seq)
		if errors.Is(err, broker.ErrNoMessage) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("history of %s: %w", n.ID, err)
		}
		e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
		if err != nil {
			return nil, fmt.Errorf("event %d of job %s: %w", m.Seq, n.ID, err)
		}
		out = append(out, joblog.Entry{Event: e, Seq: m.Seq})
		seq = m.Seq + 1
	}
}
