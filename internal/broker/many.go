package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// Reads of many messages at once, for callers that ask the leader where the answer does not do:
// any replica answers, which may lack what was stored last, and have what was deleted last.

// Some reads the first messages on a subject with sequence from or above, in order and without
// a gap: most at most, and fewer where they are large.
func (r *reader) Some(ctx context.Context, stream, subject string, from uint64, most int) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{Seq: max(from, 1), NextBy: subject, Batch: min(most, pageMessages), MaxBytes: pageBytes})
	return a.messages, unlessMissing(err)
}

// Lasts reads the last messages on some subjects, of which it leaves some out where they are
// large. MostSubjects at most.
func (r *reader) Lasts(ctx context.Context, stream string, subjects []string) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{MultiLast: subjects, MaxBytes: behindBytes})
	return a.messages, unlessMissing(err)
}

// unlessMissing: a stream that has no direct gets tells nothing.
func unlessMissing(err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}
