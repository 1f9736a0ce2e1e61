package deadletter

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// Extent describes the dead letters that existed at a moment, by the last sequences of both
// streams. At guards against a recreated stream, whose sequences restart.
type Extent struct {
	Dead, Rejected uint64
	At             time.Time
}

// Extent returns the current extent, by the clock of the stream's leader.
func (s Streams) Extent(ctx context.Context) (Extent, error) {
	dead, err := s.Broker.Stream(ctx, s.Broker.Names().Dead())
	if err != nil {
		return Extent{}, err
	}
	rejected, err := s.Broker.Stream(ctx, s.Broker.Names().Rejected())
	if err != nil {
		return Extent{}, err
	}
	info := dead.CachedInfo()
	return Extent{Dead: info.State.LastSeq, Rejected: rejected.CachedInfo().State.LastSeq, At: info.TimeStamp}, nil
}

// Has reports whether a dead letter existed at that moment.
func (e Extent) Has(m broker.Stored) bool {
	return e.Reaches(m.Seq) && !m.Time.After(e.At)
}

// Reaches reports whether the dead letter with this sequence may have existed. Has also checks its
// time.
func (e Extent) Reaches(seq uint64) bool {
	if IsRejected(seq) {
		return seq <= e.Rejected
	}
	return seq <= e.Dead
}
