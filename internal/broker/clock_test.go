package broker_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/subject"
)

// TestTheClockIsMeasured proves that the clock is measured at startup, on one node and on three.
func TestTheClockIsMeasured(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(t testing.TB) *broker.Broker) {
		b := open(t)
		now, err := b.Clock().Now()
		offset, within, known := b.Clock().Offset()
		if err != nil || time.Since(now) > time.Minute || !known || offset.Abs() > within+time.Second {
			t.Errorf("%s, %v; offset %s within %s, known %t", now, err, offset, within, known)
		}
	})
}

func TestAWrongClockIsMeasured(t *testing.T) {
	t.Parallel()
	var shift atomic.Int64
	shift.Store(int64(49 * time.Hour))
	o := broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), URL: brokertest.Alone(t).ClientURL(),
		Wall: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) },
	}
	unmeasured, err := broker.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unmeasured.Clock().Now(); !errors.Is(err, clock.ErrUnknown) {
		t.Errorf("before the streams were there: %v", err)
	}
	if err := unmeasured.Close(); err != nil {
		t.Error(err)
	}
	b := brokertest.Open(t, o)
	var wrong *clock.WrongError
	if _, err := b.Clock().Now(); !errors.As(err, &wrong) || (wrong.Offset-49*time.Hour).Abs() > time.Minute { // imprecise if the answer is slow
		t.Errorf("%v", err)
	}
	shift.Store(0)
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := b.Clock().Now(); err != nil {
		t.Error(err)
	}
}
