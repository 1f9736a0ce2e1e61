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
	// maxLookedAt and maxLookedAtBytes bound the letters whose codes are looked at. One read is
	// one letter, whole: a consumer could leave the requests out, but genbus may make none of
	// this stream.
	maxLookedAt      = 500
	maxLookedAtBytes = 8 << 20
	// lookWithin is how long the codes are looked at. A caller has other parts to answer with.
	lookWithin = 2 * time.Second
	// pausePerLook is for how many times as long as they were looked at the codes are not looked
	// at again, so that reading takes a small part of the time, also where it fails.
	pausePerLook = 10
)

// Counts are all letters, by what they need.
type Counts struct {
	// OutcomeUnknown are those of jobs that an upstream may have, and Other those of other jobs.
	OutcomeUnknown, Other uint64
	// Uncounted are those of jobs behind the oldest ones, which were not looked at: there are so
	// many, or so much, or reading them took too long or failed.
	Uncounted uint64
	// Rejected are those of requests that were never accepted.
	Rejected uint64
}

// Counter counts letters, and remembers the count while the stream has no other letters. It is
// safe for concurrent use. Streams is required.
type Counter struct {
	Streams Streams

	within time.Duration // lookWithin, but for a test

	mu     sync.Mutex
	counts Counts
	of     streamState
	until  time.Time // what was counted is used until then in any case
}

// streamState tells one content of a stream from another one.
type streamState struct {
	created            time.Time
	first, last, count uint64
}

// Count counts the letters. By code the count may be some seconds old.
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
			of = streamState{} // look again at the same letters
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

// look looks at the codes of the oldest letters. It is whole unless a read failed; what was
// looked at before counts in any case.
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
