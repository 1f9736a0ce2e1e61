// Package clock guards decisions that depend on the time of day. Replicas share deadlines through
// the log, so a replica with a wrong clock would end jobs of other replicas. Clock compares the
// replica's clock with the broker's. Call Clock.Now before starting or ending anything based on the
// time.
package clock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// Limit is the largest allowed difference from the broker's clock. The clocks of two replicas
	// within this limit are at most 2*Limit apart, so a replica that takes over a submission waits
	// that long after the holder's write deadline. If the clocks of the broker's servers differ, a
	// change of the log's leader breaks this bound until the next measurement, about two seconds
	// later.
	Limit = 5 * time.Second
	// rightAgain is the limit for a clock that was wrong, so that a clock near Limit does not flap.
	rightAgain = Limit * 4 / 5
	// Holds is how long a measurement stays valid while the broker does not answer. During that time, a
	// machine's wall clock and monotonic clock drift apart by less than a second.
	Holds = 10 * time.Minute
	// precise is the largest error of a measurement that may replace a valid one.
	precise = time.Second
	// awaitEvery is the polling interval of Await.
	awaitEvery = 250 * time.Millisecond
)

// ErrUnknown is returned by Now if no comparison with the broker's clock has succeeded within
// Holds.
var ErrUnknown = errors.New("this replica's clock has not been compared with the broker's recently, so it accepts no jobs and ends none by time")

// WrongError is returned by Now while the clock differs too much from the broker's.
type WrongError struct {
	Offset time.Duration // positive if ahead of the broker
}

func (e *WrongError) Error() string {
	far, way := e.Offset, "ahead of"
	if far < 0 {
		far, way = -far, "behind"
	}
	return fmt.Sprintf("this replica's clock is %s %s the broker's, so it accepts no jobs and ends none by time", far.Round(time.Millisecond), way)
}

// Refuses reports whether err comes from Now and means that this replica must not base decisions on
// the time.
func Refuses(err error) bool {
	_, wrong := errors.AsType[*WrongError](err)
	return wrong || errors.Is(err, ErrUnknown)
}

// Clock compares this replica's clock with the broker's. It is safe for concurrent use.
type Clock struct {
	wall  func() time.Time
	start time.Time // origin of the monotonic times in measurements
	last  atomic.Pointer[measurement]
	wrong atomic.Bool // result of the last Now
}

// measurement is one reading of the broker's clock.
type measurement struct {
	broker time.Time
	at     time.Duration // monotonic, since Clock.start
	within time.Duration // largest error of broker
}

// New returns a Clock without a measurement. wall reads the time of day; nil means time.Now.
func New(wall func() time.Time) *Clock {
	if wall == nil {
		wall = time.Now
	}
	return &Clock{wall: wall, start: time.Now()}
}

// Measure reads the broker's clock with ask and records the result. It assumes that the broker read
// its clock halfway between request and reply, so the error is at most half of the round-trip time.
// An imprecise measurement does not replace one that is still valid.
func (c *Clock) Measure(ask func() (time.Time, error)) error {
	asked := time.Since(c.start)
	broker, err := ask()
	if err != nil {
		return err
	}
	within := (time.Since(c.start) - asked) / 2
	now := &measurement{broker: broker, at: asked + within, within: within}
	if last := c.last.Load(); last == nil || within <= precise || !last.holds(asked) {
		c.last.Store(now)
	}
	return nil
}

func (m *measurement) holds(now time.Duration) bool { return now-m.at < Holds }

// Offset returns how far this clock is ahead of the broker's, and the largest possible error of
// that value. known is false if there is no valid measurement.
func (c *Clock) Offset() (offset, within time.Duration, known bool) {
	_, offset, within, known = c.read()
	return offset, within, known
}

// read compares the wall clock with the monotonic clock, so that it detects a step of the wall
// clock without asking the broker again.
func (c *Clock) read() (now time.Time, offset, within time.Duration, known bool) {
	m, elapsed := c.last.Load(), time.Since(c.start)
	now = c.wall()
	if m == nil || !m.holds(elapsed) {
		return now, 0, 0, false
	}
	return now, now.Round(0).Sub(m.broker.Add(elapsed - m.at)), m.within, true
}

// Now returns the time on which decisions may be based. It returns a *WrongError if the clock is
// wrong, and ErrUnknown if no measurement is valid. The caller must then make no decision that
// depends on the time.
func (c *Clock) Now() (time.Time, error) {
	now, offset, within, known := c.read()
	if !known {
		return time.Time{}, ErrUnknown
	}
	limit := Limit
	if c.wrong.Load() {
		limit = rightAgain
	}
	if wrong := offset.Abs()+within > limit; wrong {
		c.wrong.Store(true)
		return time.Time{}, &WrongError{Offset: offset}
	}
	c.wrong.Store(false)
	return now, nil
}

// Await blocks until Now succeeds. It returns the error of ctx if ctx ends first.
func (c *Clock) Await(ctx context.Context) error {
	if _, err := c.Now(); err == nil {
		return ctx.Err()
	}
	ticker := time.NewTicker(awaitEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if _, err := c.Now(); err == nil {
			return ctx.Err()
		}
	}
}
