package broker

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

// The methods in this file read many messages with one request. Any replica may answer. It may lack
// the newest messages and still have messages that were removed. Callers ask the leader if that
// matters.

// Some returns the first messages on a subject whose sequence is at least from, in order and
// without gaps. limit bounds their number. There may be fewer if they are large.
func (r *reader) Some(ctx context.Context, stream, subject string, from uint64, limit int) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{Seq: max(from, 1), NextBy: subject, Batch: min(limit, pageMessages), MaxBytes: pageBytes})
	return a.messages, unlessMissing(err)
}

// Lasts returns the last message on each of up to MaxSubjects subjects. It omits some if messages
// are large.
func (r *reader) Lasts(ctx context.Context, stream string, subjects []string) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{MultiLast: subjects, MaxBytes: behindBytes})
	return a.messages, unlessMissing(err)
}

// unlessMissing drops the error for a stream that does not allow direct gets.
func unlessMissing(err error) error {
	if errors.Is(err, nats.ErrNoResponders) {
		return nil
	}
	return err
}
