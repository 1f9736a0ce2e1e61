package deadletter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// maxLookedAt bounds the letters whose codes are looked at. One read is one letter, whole:
	// a consumer could leave the requests out, but genbus may make none of this stream.
	maxLookedAt = 500
	// pausePerLetter is how long the codes are not looked at again, for each letter that was
	// read the last time, so that reading takes a small part of the time.
	pausePerLetter = 20 * time.Millisecond
)

// Counts are all letters, by what they need.
type Counts struct {
	// OutcomeUnknown are those of jobs that an upstream may have, and Other those of other jobs.
	OutcomeUnknown, Other uint64
	// Uncounted are those of jobs behind the oldest ones, which were not looked at.
	Uncounted uint64
	// Rejected are those of requests that were never accepted.
	Rejected uint64
}

// Counter counts letters, and remembers the count while the stream has no other letters. It is
// safe for concurrent use. Streams is required.
type Counter struct {
	Streams Streams

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
	if of := (streamState{i.Created, i.State.FirstSeq, i.State.LastSeq, i.State.Msgs}); of != c.of && !time.Now().Before(c.until) {
		counts, err := c.look(ctx)
		if err != nil {
			return Counts{}, err
		}
		c.counts, c.of = counts, of
		c.until = time.Now().Add(time.Duration(counts.OutcomeUnknown+counts.Other) * pausePerLetter)
	}
	out := c.counts
	out.Rejected = rejected.CachedInfo().State.Msgs
	out.Uncounted = i.State.Msgs - min(out.OutcomeUnknown+out.Other, i.State.Msgs)
	return out, nil
}

// look looks at the codes of the oldest letters.
func (c *Counter) look(ctx context.Context) (out Counts, err error) {
	names, seq := c.Streams.Broker.Names(), uint64(1)
	for range maxLookedAt {
		m, err := c.Streams.NextOn(ctx, names.DeadPattern(), seq)
		if errors.Is(err, broker.ErrNoMessage) {
			break
		}
		if err != nil {
			return out, err
		}
		if m.Header.Get(subject.HeaderErrorCode) == string(errcode.SubmissionUnknown) {
			out.OutcomeUnknown++
		} else {
			out.Other++
		}
		seq = m.Seq + 1
	}
	return out, nil
}
