package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestWaitInflight waits for those that have begun, and not for those that begin after it.
func TestWaitInflight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Admission
		if err := a.WaitInflight(t.Context()); err != nil {
			t.Errorf("none had begun: %v", err)
		}
		one, two := a.inflight.begin(), a.inflight.begin()
		over := make(chan error, 1)
		go func() { over <- a.WaitInflight(t.Context()) }()
		synctest.Wait()
		later := a.inflight.begin()
		one()
		synctest.Wait()
		if len(over) != 0 {
			t.Error("one was in hand")
		}
		two()
		if err := <-over; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := errors.New("ended")
		cancel(ended)
		if err := a.WaitInflight(ctx); !errors.Is(err, ended) {
			t.Errorf("the context had ended: %v", err)
		}
		later()
	})
}
