// Package clock says whether this replica may judge by its clock. The log holds
// deadlines that one replica wrote and another compares with its own clock: one whose
// clock is wrong would end everybody's jobs. So the clock is compared with the broker's,
// and every decision that ends or begins something by the time of day asks Now first.
package clock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// Limit is how far the clock may be from the broker's. Two replicas that judge are
	// at most twice as far from each other: a replica that takes a submission over waits that
	// long beyond the time until which its holder may write it. Where the clocks of the
	// broker's servers differ, that holds from the next measurement after a change of
	// the log's leader on, which is two seconds later where the broker answers.
	Limit = 5 * time.Second
	// rightAgain is the limit of a clock that was wrong, so that one that is just at the
	// limit does not change its mind with each measurement.
	rightAgain = Limit * 4 / 5
	// Holds is how long a measurement holds while the broker does not answer. The two
	// clocks of a machine drift apart by less than a second in that time.
	Holds = 10 * time.Minute
	// precise is the largest error of a measurement that replaces one that still holds.
	precise = time.Second
	// awaitEvery is how often Await looks.
	awaitEvery = 250 * time.Millisecond
)

// ErrUnknown is the error of Now as long as the clock was not compared with the
// broker's, or not lately.
var ErrUnknown = errors.New("this replica's clock has not been compared with the broker's recently, so it accepts no jobs and ends none by time")

// WrongError is the error of Now while the clock is wrong.
type WrongError struct {
	Offset time.Duration // above zero: ahead of the broker's
}

func (e *WrongError) Error() string {
	far, way := e.Offset, "ahead of"
	if far < 0 {
		far, way = -far, "behind"
	}
	return fmt.Sprintf("this replica's clock is %s %s the broker's, so it accepts no jobs and ends none by time", far.Round(time.Millisecond), way)
}

// Refuses reports whether an error is of Now: by this clock nothing is to be judged.
func Refuses(err error) bool {
	_, wrong := errors.AsType[*WrongError](err)
	return wrong || errors.Is(err, ErrUnknown)
}

// Clock is this replica's clock and what is known of it. It is safe for concurrent use.
type Clock struct {
	wall  func() time.Time
	start time.Time // of the monotonic time of the measurements
	last  atomic.Pointer[measurement]
	wrong atomic.Bool // as Now has found it last
}

// measurement is what the broker's clock showed.
type measurement struct {
	broker time.Time
	at     time.Duration // when, by the monotonic clock
	within time.Duration // the most by which broker is wrong
}

// New returns a clock that was not compared yet. wall is the time of day, nil for
// time.Now.
func New(wall func() time.Time) *Clock {
	if wall == nil {
		wall = time.Now
	}
	return &Clock{wall: wall, start: time.Now()}
}

// Measure compares the clock with the broker's, which ask reads: somewhere between the
// question and the answer, so that the middle is wrong by half the time between them at
// most. The latest measurement counts.
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

// Offset is how far the clock is ahead of the broker's now, and by how much that may be
// wrong. It is false where nothing is known.
func (c *Clock) Offset() (offset, within time.Duration, known bool) {
	_, offset, within, known = c.read()
	return offset, within, known
}

// read looks at both clocks of the machine: a step of the time of day since the
// measurement shows at once, without the broker.
func (c *Clock) read() (now time.Time, offset, within time.Duration, known bool) {
	m, elapsed := c.last.Load(), time.Since(c.start)
	now = c.wall()
	if m == nil || !m.holds(elapsed) {
		return now, 0, 0, false
	}
	return now, now.Round(0).Sub(m.broker.Add(elapsed - m.at)), m.within, true
}

// Now is the time to judge by. The error says why this replica must not judge: its
// clock is wrong (*WrongError), or nothing is known of it (ErrUnknown).
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

// Await waits until this replica may judge. It fails when ctx ends before.
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
