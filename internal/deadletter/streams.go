// Package deadletter keeps what could not be processed, with the reason: accepted jobs, whole,
// in GENBUS_DEAD, and requests that were never accepted in GENBUS_REJECTED. It is the only
// code that names the two streams. How many letters a tenant may have is for quota, and what
// becomes of a letter for operator.
package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Streams reads letters, and removes them. The sequence of a letter says which of the two
// streams has it.
type Streams struct{ Broker *broker.Broker }

// name is the stream that has, or had, the letter of a sequence.
func (s Streams) name(seq uint64) string {
	if IsRejected(seq) {
		return s.Broker.Names().Rejected()
	}
	return s.Broker.Names().Dead()
}

// IsRejected reports whether the letter of a sequence is in GENBUS_REJECTED.
func IsRejected(seq uint64) bool { return seq >= subject.FirstRejected }

// At reads the letter of a sequence.
func (s Streams) At(ctx context.Context, seq uint64) (broker.Stored, error) {
	return s.Broker.At(ctx, s.name(seq), seq)
}

// Next reads the first letter of a sequence or above, of a kind and a tenant; empty for all.
// Those of GENBUS_REJECTED have the higher sequences.
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

// NextOn is Next for the letters of one job, by their subject.
func (s Streams) NextOn(ctx context.Context, subj string, seq uint64) (broker.Stored, error) {
	return s.Broker.Next(ctx, s.Broker.Names().Dead(), subj, seq)
}

// OfJob is the subject of the letters of an accepted job.
func (s Streams) OfJob(n subject.JobName) string {
	return s.Broker.Names().DeadLetter(n.Kind, n.Tenant, n.ID)
}

// Delete removes a letter. One that is gone already is no error.
func (s Streams) Delete(ctx context.Context, seq uint64) error {
	_, err := s.Broker.Delete(ctx, s.name(seq), seq)
	return err
}

// Size is what GENBUS_DEAD has.
type Size struct {
	Letters uint64
	// Bytes and MaxBytes are those of the whole stream.
	Bytes    uint64
	MaxBytes int64
}

// Count counts the letters of the jobs of a tenant, or of all for none.
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
