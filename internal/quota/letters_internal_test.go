package quota

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
)

// TestCountsThatAreNotAnswered: all who ask share one read, and each waits no longer than
// it may. After a read that failed, the next is not tried at once.
func TestCountsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLetters(config.NewLive(config.Default()), nil)
		reads := 0
		l.read = func(ctx context.Context, _ string, c letterCount, _ uint64) (letterCount, error) {
			reads++
			<-ctx.Done()
			return c, context.Cause(ctx)
		}
		begin, gone := time.Now(), make(chan error)
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
			defer cancel()
			go func() { gone <- l.Check(ctx, "acme") }()
		}
		for i := range 3 {
			if err := <-gone; err == nil || time.Since(begin) != time.Duration(i+1)*time.Second {
				t.Errorf("caller %d: %v after %s", i, err, time.Since(begin))
			}
		}
		for range 3 {
			if _, err := l.count(t.Context(), "", 1); !errors.Is(err, errUncounted) {
				t.Errorf("without a ctx that ends: %v", err)
			}
		}
		if reads != 1 {
			t.Errorf("%d reads", reads)
		}
		if err := broker.Wait(t.Context(), LettersEvery); err != nil {
			t.Fatal(err)
		}
		l.read = func(_ context.Context, _ string, c letterCount, _ uint64) (letterCount, error) {
			c.stored, c.limit = 1, 1
			return c, nil
		}
		if c, err := l.count(t.Context(), "", 1); err != nil || c.stored != 1 {
			t.Errorf("when JetStream answers: %v, %v", c.stored, err)
		}
	})
}
