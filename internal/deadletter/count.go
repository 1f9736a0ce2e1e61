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
	// maxLookedAt and maxLookedAtBytes limit the dead letters that are read for their codes. Each
	// read returns a whole dead letter. A consumer could omit the bodies, but genbus may not create
	// a consumer on this stream.
	maxLookedAt      = 500
	maxLookedAtBytes = 8 << 20
	// lookWithin bounds the time for reading codes, because the caller also waits for other data.
	lookWithin = 2 * time.Second
	// pausePerLook is the ratio of the pause after reading codes to the duration of the read. It
	// limits reads to a small share of the time, even if they fail.
	pausePerLook = 10
)

// Counts holds the numbers of dead letters, grouped by the action that they need.
type Counts struct {
	// OutcomeUnknown counts jobs that an upstream may have accepted. Other counts all other jobs.
	OutcomeUnknown, Other uint64
	// Uncounted counts jobs whose codes were not read because there are too many, they are too
	// large, or the read was slow or failed.
	Uncounted uint64
	// Rejected counts requests that were never accepted.
	Rejected uint64
}

// Counter counts dead letters. It reuses its counts until the stream changes. It is safe for
// concurrent use. Streams is required.
type Counter struct {
	Streams Streams

	within time.Duration // overrides lookWithin in tests

	mu     sync.Mutex
	counts Counts
	of     streamState
	until  time.Time // do not count again before this time
}

type streamState struct {
	created            time.Time
	first, last, count uint64
}

// Count counts the dead letters. The counts by code may be a few seconds old.
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
			of = streamState{} // read again even if the stream does not change
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

// look counts the oldest dead letters by code. whole is false if a read failed. out then covers the
// dead letters before the failure.
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
