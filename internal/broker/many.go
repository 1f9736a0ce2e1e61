package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// Reads of many messages with one request. Any replica answers: it may lack the newest messages and
// still have removed ones. Callers ask the leader if that matters.

// Some returns the first messages on a subject with sequence from or above, in order and without
// gaps. It returns at most most messages, and fewer if they are large.
func (r *reader) Some(ctx context.Context, stream, subject string, from uint64, most int) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{Seq: max(from, 1), NextBy: subject, Batch: min(most, pageMessages), MaxBytes: pageBytes})
	return a.messages, unlessMissing(err)
}

// Lasts returns the last messages on at most MostSubjects subjects. It omits some if messages are
// large.
func (r *reader) Lasts(ctx context.Context, stream string, subjects []string) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{MultiLast: subjects, MaxBytes: behindBytes})
	return a.messages, unlessMissing(err)
}

// unlessMissing ignores a stream without direct gets.
func unlessMissing(err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}
