// Package deadletter stores failed work together with the reason. Accepted jobs are stored in
// GENBUS_DEAD, and requests that were never accepted in GENBUS_REJECTED. The other packages of the
// service read and write these streams only through this package. Package quota limits dead letters
// per tenant, and package operator acts on them.
package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Streams reads and removes dead letters. A dead letter's sequence determines its stream.
type Streams struct{ Broker *broker.Broker }

// name returns the name of the stream for a sequence.
func (s Streams) name(seq uint64) string {
	if IsRejected(seq) {
		return s.Broker.Names().Rejected()
	}
	return s.Broker.Names().Dead()
}

// IsRejected reports whether a dead letter's sequence belongs to GENBUS_REJECTED.
func IsRejected(seq uint64) bool { return seq >= subject.FirstRejected }

// At returns the dead letter with sequence seq.
func (s Streams) At(ctx context.Context, seq uint64) (broker.Stored, error) {
	return s.Broker.At(ctx, s.name(seq), seq)
}

// Next returns the first dead letter of a kind and tenant with sequence seq or higher. An empty
// kind or tenant matches all. Sequences in GENBUS_REJECTED are higher than those in GENBUS_DEAD.
func (s Streams) Next(ctx context.Context, kind subject.Kind, tenant string, seq uint64) (broker.Stored, error) {
	names := s.Broker.Names()
	if !IsRejected(seq) {
		m, err := s.Broker.Next(ctx, names.Dead(), names.DeadLetters(kind, tenant), seq)
		if !errors.Is(err, broker.ErrNoMessage) {
			return m, err
		}
		seq = subject.FirstRejected
	}
	return s.Broker.Next(ctx, names.Rejected(), names.RejectedDeadLetters(kind, tenant), seq)
}

// NextOn is like Next but for one subject in GENBUS_DEAD.
func (s Streams) NextOn(ctx context.Context, subj string, seq uint64) (broker.Stored, error) {
	return s.Broker.Next(ctx, s.Broker.Names().Dead(), subj, seq)
}

// OfJob returns the subject of an accepted job's dead letters.
func (s Streams) OfJob(n subject.JobName) string {
	return s.Broker.Names().DeadLetter(n.Kind, n.Tenant, n.ID)
}

// Delete removes a dead letter. It returns no error if the dead letter is missing.
func (s Streams) Delete(ctx context.Context, seq uint64) error {
	_, err := s.Broker.Delete(ctx, s.name(seq), seq)
	return err
}

// Size describes GENBUS_DEAD.
type Size struct {
	Count uint64
	// Bytes and MaxBytes apply to the whole stream.
	Bytes    uint64
	MaxBytes int64
}

// Count counts the dead letters of a tenant's accepted jobs. An empty tenant selects all tenants.
func (s Streams) Count(ctx context.Context, tenant string) (Size, error) {
	found, err := s.Broker.Stream(ctx, s.Broker.Names().Dead())
	if err != nil {
		return Size{}, err
	}
	info := found.CachedInfo()
	size := Size{Count: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes}
	if tenant == "" {
		return size, nil
	}
	if info, err = found.Info(ctx, jetstream.WithSubjectFilter(s.Broker.Names().DeadLetters("", tenant))); err != nil {
		return Size{}, fmt.Errorf("count the dead letters: %w", err)
	}
	size.Count = 0
	for _, n := range info.State.Subjects {
		size.Count += n
	}
	return size, nil
}
