package joblog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// creditShare defines the credit: between two reads of the figures, a replica may grant
// 1/creditShare of the log. Other replicas see these grants only at their next read. The credit
// therefore bounds the excess of all replicas together, regardless of their rate and the age of
// their figures. Eight replicas exceed a limit by at most 7/512 of the log, or by one larger
// request each, and by the grants of seven that are not stored yet.
const creditShare = 512

// countsFresh is the age at which the figures are reread. Older figures are harmless, because only
// the credit can be granted from them.
const countsFresh = time.Second

// reservations grants bytes of the log. All callers share one read of the figures per second.
// Between reads, this replica grants its credit, or one request that exceeds it. A grant counts
// until a read that starts after its release, because the figures of an earlier read may not
// include its bytes.
type reservations struct {
	read func(context.Context) (Figures, error)
	now  func() time.Time

	mu      sync.Mutex
	figures Figures
	began   time.Time    // start of the read that returned figures; zero if none
	tried   time.Time    // start of the last read
	held    int64        // granted but not released
	before  int64        // value of held at began
	granted int64        // granted since began
	reading *figuresRead // in flight, or nil
}

// figuresRead is a read in flight. err is valid once done is closed.
type figuresRead struct {
	began  time.Time
	before int64 // value of held at began
	since  int64 // granted since began
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

var errNoCapacity = errors.New("the task log is full")

// Release ends a reservation. Call it when the bytes are stored, so that the next figures include
// them, or when they will never be stored. Until then, they count in addition to all figures.
type Release func()

// take grants bytes for a purpose until they are released. It returns errNoCapacity if there is no
// capacity, and any other error if it cannot read the figures.
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
		case unknown: // wait for the read in flight
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

// judge decides on a request and returns the figures that it used. Figures count as fresh if they
// were fresh when the caller arrived, so that a slow read still serves the callers that wait for
// it. The caller holds c.mu.
func (c *reservations) judge(p purpose, bytes int64, came time.Time) (Figures, verdict) {
	figures := c.figures
	figures.Granted = c.before + c.granted
	fresh, all := came.Sub(c.began) <= countsFresh, c.granted+bytes
	switch {
	case c.began.IsZero():
		return figures, unknown
	case figures.Max <= 0: // no limit
	case bytes > figures.remaining(p):
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

// begin starts a read for all waiting callers. The read has its own timeout and may outlast the
// caller that started it. The caller holds c.mu.
func (c *reservations) begin(ctx context.Context) *figuresRead {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), broker.ReadTimeout,
		fmt.Errorf("the figures of the task log: no answer within %s", broker.ReadTimeout))
	r := &figuresRead{began: c.now(), before: c.held, done: make(chan struct{}), cancel: cancel}
	c.reading, c.tried = r, r.began
	go c.finish(ctx, r)
	return r
}

// finish performs a read. Bytes that were held at its start or granted since then count in addition
// to its figures, which may not include them.
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

// stop cancels the read in flight and waits for it.
func (c *reservations) stop() {
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}
