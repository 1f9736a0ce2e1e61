package deadletter

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// Extent is which letters there were at a moment: up to the last ones of both streams. A stream
// that was created again counts from the beginning, and so the time is looked at too.
type Extent struct {
	Dead, Rejected uint64
	At             time.Time
}

// Extent is which letters there are now, by the clock of the stream's leader.
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

// Has reports whether a letter is one of them.
func (e Extent) Has(m broker.Stored) bool {
	return e.Reaches(m.Seq) && !m.Time.After(e.At)
}

// Reaches reports whether a letter of a sequence may be one of them: whether there is one, and
// when it was stored, is for Has.
func (e Extent) Reaches(seq uint64) bool {
	if IsRejected(seq) {
		return seq <= e.Rejected
	}
	return seq <= e.Dead
}
