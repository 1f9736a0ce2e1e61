package clock_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/clock"
)

// machine has a wall clock that tests set and a monotonic clock that they cannot change.
type machine struct{ shift atomic.Int64 }

func (m *machine) now() time.Time { return time.Now().Add(time.Duration(m.shift.Load())) }

func (m *machine) set(shift time.Duration) { m.shift.Store(int64(shift)) }

// measure compares c with a broker whose clock is right and that takes took to answer.
func measure(t *testing.T, c *clock.Clock, took time.Duration) {
	t.Helper()
	err := c.Measure(func() (time.Time, error) {
		<-time.After(took / 2)
		broker := time.Now().UTC().Round(0) // no monotonic reading, as after JSON decoding
		<-time.After(took / 2)
		return broker, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c *clock.Clock, want string) {
	t.Helper()
	now, err := c.Now()
	switch {
	case want == "" && (err != nil || now.IsZero()):
		t.Errorf("%s, %v; want the time", now, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s, %v; want %q", now, err, want)
	}
}

func TestNothingIsJudgedBeforeTheFirstMeasurement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.New(nil)
		if _, err := c.Now(); !errors.Is(err, clock.ErrUnknown) {
			t.Errorf("%v", err)
		}
		away := errors.New("away")
		if err := c.Measure(func() (time.Time, error) { return time.Time{}, away }); !errors.Is(err, away) {
			t.Errorf("%v", err)
		}
		expect(t, c, "not been compared")
		measure(t, c, 0)
		expect(t, c, "")
		if offset, within, known := c.Offset(); offset != 0 || within != 0 || !known {
			t.Errorf("%s within %s, known %t", offset, within, known)
		}
	})
}

func TestAWrongClockIsKnown(t *testing.T) {
	t.Parallel()
	for shift, want := range map[time.Duration]string{
		49 * time.Hour: "49h0m0s ahead of", -49 * time.Hour: "49h0m0s behind", 5001 * time.Millisecond: "5.001s ahead of",
		-5001 * time.Millisecond: "5.001s behind", 5 * time.Second: "", -5 * time.Second: "", 0: "",
	} {
		t.Run(shift.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var m machine
				m.set(shift)
				c := clock.New(m.now)
				measure(t, c, 0)
				expect(t, c, want)
				<-time.After(time.Minute) // the broker does not answer again
				expect(t, c, want)
			})
		})
	}
}

// The monotonic clock reveals a step of the time of day without another measurement.
func TestAStepIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m machine
		c := clock.New(m.now)
		measure(t, c, 0)
		<-time.After(time.Minute)
		expect(t, c, "")
		m.set(49 * time.Hour)
		expect(t, c, "49h0m0s ahead of")
		m.set(-time.Minute)
		expect(t, c, "1m0s behind")
		m.set(0)
		expect(t, c, "")
	})
}

// An offset whose possible error exceeds the limit is not trusted, even if it looks small.
func TestASlowAnswerSaysLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.set(3 * time.Second)
		c := clock.New(m.now)
		measure(t, c, 5*time.Second) // an offset of 3 s ± 2.5 s
		expect(t, c, "3s ahead of")
		measure(t, c, time.Second)
		expect(t, c, "")
		measure(t, c, 5*time.Second) // must not replace a precise measurement that is still valid
		expect(t, c, "")
	})
}

func TestAMeasurementDoesNotHoldForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.New(nil)
		measure(t, c, 0)
		<-time.After(clock.Holds - 1)
		expect(t, c, "")
		<-time.After(1)
		expect(t, c, "not been compared")
		if _, _, known := c.Offset(); known {
			t.Error("the offset is known")
		}
		measure(t, c, 5*time.Second) // accepted: the previous one has expired
		expect(t, c, "")
	})
}

// A clock near the limit does not flap between measurements.
func TestAClockAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.set(clock.Limit + 1)
		c := clock.New(m.now)
		measure(t, c, 0)
		expect(t, c, "ahead of")
		m.set(clock.Limit - 1)
		expect(t, c, "ahead of")
		m.set(clock.Limit / 2)
		expect(t, c, "")
		m.set(clock.Limit)
		expect(t, c, "")
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m machine
		m.set(time.Hour)
		c := clock.New(m.now)
		measure(t, c, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := c.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wrong clock: %v", err)
		}
		right := make(chan error, 1)
		go func() { right <- c.Await(t.Context()) }()
		synctest.Wait()
		m.set(0)
		if err := <-right; err != nil {
			t.Errorf("a clock that was corrected: %v", err)
		}
		if err := c.Await(ctx); err == nil {
			t.Error("the context has ended")
		}
	})
}
