// Package deadletter stores failed work with the reason: accepted jobs in GENBUS_DEAD, and requests
// that were never accepted in GENBUS_REJECTED. No other package names these streams. Package quota
// limits dead letters per tenant, and package operator acts on them.
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

// name returns the stream for a sequence.
func (s Streams) name(seq uint64) string {
	if IsRejected(seq) {
		return s.Broker.Names().Rejected()
	}
	return s.Broker.Names().Dead()
}

// IsRejected reports whether a dead letter's sequence belongs to GENBUS_REJECTED.
func IsRejected(seq uint64) bool { return seq >= subject.FirstRejected }

// At returns the dead letter with this sequence.
func (s Streams) At(ctx context.Context, seq uint64) (broker.Stored, error) {
	return s.Broker.At(ctx, s.name(seq), seq)
}

// Next returns the first dead letter with sequence seq or above, of a kind and tenant; empty
// matches all. GENBUS_REJECTED has the higher sequences.
func (s Streams) Next(ctx context.Context, kind subject.Kind, tenant string, seq uint64) (broker.Stored, error) {
	names := s.Broker.Names()
	if !IsRejected(seq) {
		m, err := s.Broker.Next(ctx, names.Dead(), names.DeadLetters(kind, tenant), seq)
		if !errors.Is(err, broker.ErrNoMessage) {
			return m, err
		}
		seq = subject.FirstRejected
	}
	return s.Broker.Next(ctx, names.Rejected(), names.RejectedLetters(kind, tenant), seq)
}

// NextOn is Next for the dead letters on one subject.
func (s Streams) NextOn(ctx context.Context, subj string, seq uint64) (broker.Stored, error) {
	return s.Broker.Next(ctx, s.Broker.Names().Dead(), subj, seq)
}

// OfJob returns the subject of an accepted job's dead letters.
func (s Streams) OfJob(n subject.JobName) string {
	return s.Broker.Names().DeadLetter(n.Kind, n.Tenant, n.ID)
}

// Delete removes a dead letter. A missing one is not an error.
func (s Streams) Delete(ctx context.Context, seq uint64) error {
	_, err := s.Broker.Delete(ctx, s.name(seq), seq)
	return err
}

// Size describes GENBUS_DEAD.
type Size struct {
	Letters uint64
	// Bytes and MaxBytes apply to the whole stream.
	Bytes    uint64
	MaxBytes int64
}

// Count counts the dead letters of jobs of a tenant, or of all tenants for "".
func (s Streams) Count(ctx context.Context, tenant string) (Size, error) {
	found, err := s.Broker.Stream(ctx, s.Broker.Names().Dead())
	if err != nil {
		return Size{}, err
	}
	info := found.CachedInfo()
	size := Size{Letters: info.State.Msgs, Bytes: info.State.Bytes, MaxBytes: info.Config.MaxBytes}
	if tenant == "" {
		return size, nil
	}
	if info, err = found.Info(ctx, jetstream.WithSubjectFilter(s.Broker.Names().DeadLetters("", tenant))); err != nil {
		return Size{}, fmt.Errorf("count the dead letters: %w", err)
	}
	size.Letters = 0
	for _, n := range info.State.Subjects {
		size.Letters += n
	}
	return size, nil
}
