package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestDecided waits for who has begun, and not for those that begin after it.
func TestDecided(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a Admission
		if err := a.Decided(t.Context()); err != nil {
			t.Errorf("nobody had begun: %v", err)
		}
		one, two := a.decisions.begin(), a.decisions.begin()
		over := make(chan error, 1)
		go func() { over <- a.Decided(t.Context()) }()
		synctest.Wait()
		later := a.decisions.begin()
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
		if err := a.Decided(ctx); !errors.Is(err, ended) {
			t.Errorf("the context had ended: %v", err)
		}
		later()
	})
}
