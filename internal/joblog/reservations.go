package joblog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
)

// creditShare is the part of the room that a replica may use up before it reads again how
// much there is. The other replicas do not see that before they read, so it bounds by how
// much all of them together exceed a limit, whatever their rate and however old their
// figures are: eight replicas by 7/512 of the log for each of two purposes.
const creditShare = 512

// countsFresh is the age at which the figures are read again. Older ones do no harm: they
// are good for no more than the credit.
const countsFresh = time.Second

// reservations is the owner of the rule whether there is room in the log. One read of the
// figures is for all who ask, about once a second; between two reads this replica grants its
// credit, or one request that exceeds it. What it granted counts until it was released before
// a read: the figures may not have it yet.
type reservations struct {
	read func(context.Context) (Figures, error)
	now  func() time.Time

	mu      sync.Mutex
	figures Figures
	began   time.Time       // when the read of figures began; zero: there was none
	tried   time.Time       // when the last read began
	held    [purposes]int64 // granted and not released
	before  [purposes]int64 // held when the read of figures began
	granted [purposes]int64 // since then
	reading *figuresRead    // nil: none is in flight
}

// figuresRead is a read in flight. err is set before done is closed.
type figuresRead struct {
	began  time.Time
	before [purposes]int64 // held when it began
	since  [purposes]int64 // granted since it began
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// errNoCapacity is the answer where there is not enough room.
var errNoCapacity = errors.New("there is no room in the task log")

// Release returns what was reserved: it is stored, so that the next figures include it, or
// will never be. Until then it counts in addition to all figures.
type Release func()

// take grants bytes for a purpose until they are released. Without room the error is
// errNoCapacity; any other is of the read without which there is no answer.
func (c *reservations) take(ctx context.Context, p purpose, bytes int64) (Figures, Release, error) {
	came := c.now()
	for {
		c.mu.Lock()
		figures, verdict := c.figures, c.judge(p, bytes, came)
		figures.Reserved += c.before[toAdmit] + c.granted[toAdmit]
		r := c.reading
		if r == nil && (verdict == unknown || came.Sub(c.tried) > countsFresh) {
			r = c.begin(ctx)
		}
		c.mu.Unlock()
		switch verdict {
		case granted:
			return figures, sync.OnceFunc(func() { c.release(p, bytes) }), nil
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

func (c *reservations) release(p purpose, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[p] -= bytes
}

type verdict int

const (
	unknown verdict = iota
	granted
	refused
)

// judge needs the lock. Figures are fresh for a caller if they were so when it came: those
// that are read for it are, however long the read takes.
func (c *reservations) judge(p purpose, bytes int64, came time.Time) verdict {
	fresh, left := came.Sub(c.began) <= countsFresh, c.figures.left(p)-c.before[p]
	all := c.granted[p] + bytes
	switch {
	case c.began.IsZero():
		return unknown
	case c.figures.Max > 0 && fresh && all > left:
		return refused
	case c.figures.Max > 0 && all > left/creditShare && (!fresh || c.granted[p] > 0):
		return unknown
	}
	c.granted[p] = all
	c.held[p] += bytes
	if c.reading != nil {
		c.reading.since[p] += bytes
	}
	return granted
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

// finish reads. What was held when it began, or granted meanwhile, may be in the figures or
// not, and counts in any case.
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
