package deadletter

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// maxLookedAt and maxLookedAtBytes limit the dead letters whose codes are read. Each read
	// returns a whole dead letter: a consumer could omit the bodies, but genbus may not create one
	// on this stream.
	maxLookedAt      = 500
	maxLookedAtBytes = 8 << 20
	// lookWithin bounds the read of the codes, because the caller also waits for other data.
	lookWithin = 2 * time.Second
	// pausePerLook is the ratio of the pause after a read of the codes to its duration, so that
	// reads take a small share of the time even if they fail.
	pausePerLook = 10
)

// Counts counts the dead letters by the action that they need.
type Counts struct {
	// OutcomeUnknown counts jobs that an upstream may have accepted, and Other all other jobs.
	OutcomeUnknown, Other uint64
	// Uncounted counts jobs whose codes were not read, because there are too many, they are too
	// large, or the read was slow or failed.
	Uncounted uint64
	// Rejected counts requests that were never accepted.
	Rejected uint64
}

// Counter counts dead letters. It reuses a count until the stream changes. It is safe for
// concurrent use. Streams is required.
type Counter struct {
	Streams Streams

	within time.Duration // overrides lookWithin in tests

	mu     sync.Mutex
	counts Counts
	of     streamState
	until  time.Time // keep the count until then in any case
}

type streamState struct {
	created            time.Time
	first, last, count uint64
}

// Count counts the dead letters. The counts by code may be some seconds old.
func (c *Counter) Count(ctx context.Context) (Counts, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.Streams.Broker
	rejected, err := b.Stream(ctx, b.Names().Rejected())
	if err != nil {
		return Counts{}, err
	}
	dead, err := b.Stream(ctx, b.Names().Dead())
	if err != nil {
		return Counts{}, err
	}
	i := dead.CachedInfo()
	of := streamState{i.Created, i.State.FirstSeq, i.State.LastSeq, i.State.Msgs}
	if began := time.Now(); of != c.of && !began.Before(c.until) {
		counts, whole := c.look(ctx)
		if !whole {
			of = streamState{} // retry with the same stream state
		}
		if whole || counts != (Counts{}) {
			c.counts = counts
		}
		c.of, c.until = of, time.Now().Add(pausePerLook*time.Since(began))
	}
	out := c.counts
	out.Rejected = rejected.CachedInfo().State.Msgs
	out.Uncounted = i.State.Msgs - min(out.OutcomeUnknown+out.Other, i.State.Msgs)
	return out, nil
}

// look counts the oldest dead letters by code. whole is false if a read failed; out is valid up to
// that point.
func (c *Counter) look(ctx context.Context) (out Counts, whole bool) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.within, lookWithin))
	defer cancel()
	names, seq, size := c.Streams.Broker.Names(), uint64(1), 0
	for range maxLookedAt {
		m, err := c.Streams.NextOn(ctx, names.DeadPattern(), seq)
		if err != nil {
			return out, errors.Is(err, broker.ErrNoMessage)
		}
		if m.Header.Get(subject.HeaderErrorCode) == string(errcode.SubmissionUnknown) {
			out.OutcomeUnknown++
		} else {
			out.Other++
		}
		if size += len(m.Data); size >= maxLookedAtBytes {
			break
		}
		seq = m.Seq + 1
	}
	return out, true
}
