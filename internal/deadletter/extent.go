package deadletter

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// Extent identifies the dead letters that existed at one moment. Dead and Rejected are the last
// sequences of the two streams. At guards against a recreated stream, whose sequences restart.
type Extent struct {
	Dead, Rejected uint64
	At             time.Time
}

// Extent returns the current extent. At is the time on the leader of GENBUS_DEAD.
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

// Has reports whether a dead letter existed at e.At.
func (e Extent) Has(m broker.Stored) bool {
	return e.Reaches(m.Seq) && !m.Time.After(e.At)
}

// Reaches reports whether the dead letter with this sequence may have existed at e.At. Unlike Has,
// it does not check the dead letter's time.
func (e Extent) Reaches(seq uint64) bool {
	if IsRejected(seq) {
		return seq <= e.Rejected
	}
	return seq <= e.Dead
}
