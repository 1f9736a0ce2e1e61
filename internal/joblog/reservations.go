package joblog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// creditShare is the part of the log that a replica grants before it reads the figures again.
// The other replicas do not see that before they read, so it bounds by how much all of them
// together exceed a limit, whatever their rate and however old their figures are: eight replicas
// by 7/512 of the log, or by one request each that is larger than that.
const creditShare = 512

// countsFresh is the age at which the figures are read again. Older ones do no harm: they
// are good for no more than the credit.
const countsFresh = time.Second

// reservations grants bytes of the log. One read of the figures is for all callers, about once a
// second. Between two reads this replica grants its credit, or one request that exceeds it. A
// grant counts until it was released before a read: the figures may not have it yet.
type reservations struct {
	read func(context.Context) (Figures, error)
	now  func() time.Time

	mu      sync.Mutex
	figures Figures
	began   time.Time    // when the read of figures began; zero: there was none
	tried   time.Time    // when the last read began
	held    int64        // granted and not released
	before  int64        // held when the read of figures began
	granted int64        // since then
	reading *figuresRead // nil: none is in flight
}

// figuresRead is a read in flight. err is set before done is closed.
type figuresRead struct {
	began  time.Time
	before int64 // held when it began
	since  int64 // granted since it began
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// errNoCapacity is the answer where there is not enough room.
var errNoCapacity = errors.New("the task log is full")

// Release returns what was reserved: it is stored, so that the next figures include it, or
// will never be. Until then it counts in addition to all figures.
type Release func()

// take grants bytes for a purpose until they are released. Without room the error is
// errNoCapacity; any other is of the read without which there is no answer.
func (c *reservations) take(ctx context.Context, p purpose, bytes int64) (Figures, Release, error) {
	came := c.now()
	for {
		c.mu.Lock()
		figures, verdict := c.judge(p, bytes, came)
		r := c.reading
		if r == nil && (verdict == unknown || came.Sub(c.tried) > countsFresh) {
			r = c.begin(ctx)
		}
		c.mu.Unlock()
		switch verdict {
		case granted:
			return figures, sync.OnceFunc(func() { c.release(bytes) }), nil
		case refused:
			return figures, nil, errNoCapacity
		case unknown: // until the read in flight has ended
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return figures, nil, context.Cause(ctx)
		}
		if r.err != nil {
			return figures, nil, r.err
		}
	}
}

func (c *reservations) release(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= bytes
}

type verdict int

const (
	unknown verdict = iota
	granted
	refused
)

// judge needs the lock. It returns the figures by which it judged. Figures are fresh for a caller
// if they were so when it came: those that are read for it are, however long the read takes.
func (c *reservations) judge(p purpose, bytes int64, came time.Time) (Figures, verdict) {
	figures := c.figures
	figures.Granted = c.before + c.granted
	fresh, all := came.Sub(c.began) <= countsFresh, c.granted+bytes
	switch {
	case c.began.IsZero():
		return figures, unknown
	case figures.Max <= 0: // no limit
	case bytes > figures.left(p):
		if fresh {
			return figures, refused
		}
		return figures, unknown
	case all > figures.Max/creditShare && (!fresh || c.granted > 0):
		return figures, unknown
	}
	c.granted = all
	c.held += bytes
	if c.reading != nil {
		c.reading.since += bytes
	}
	return figures, granted
}

// begin needs the lock. The read is for all who wait, so it has a limit of its own: it does
// not end with the caller who began it.
func (c *reservations) begin(ctx context.Context) *figuresRead {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), broker.ReadTimeout,
		fmt.Errorf("the figures of the task log: no answer within %s", broker.ReadTimeout))
	r := &figuresRead{began: c.now(), before: c.held, done: make(chan struct{}), cancel: cancel}
	c.reading, c.tried = r, r.began
	go c.finish(ctx, r)
	return r
}

// finish reads. Bytes that were held when it began, or granted since, count in any case: the
// figures may not have them.
func (c *reservations) finish(ctx context.Context, r *figuresRead) {
	defer r.cancel()
	figures, err := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.figures, c.began, c.before, c.granted = figures, r.began, r.before, r.since
	}
	c.reading, r.err = nil, err
	close(r.done)
}

// stop ends the read in flight, which callers may have left.
func (c *reservations) stop() {
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}
