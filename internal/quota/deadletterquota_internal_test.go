package quota

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
)

// TestCountsThatAreNotAnswered checks that callers share a read, that each waits within its own
// limit, and that a failed read is not retried at once.
func TestCountsThatAreNotAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewDeadLetterQuota(config.NewLive(config.Default()), nil)
		reads := 0
		l.read = func(ctx context.Context, _ string) (deadletter.Size, error) {
			reads++
			<-ctx.Done()
			return deadletter.Size{}, context.Cause(ctx)
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
			if err := l.Check(t.Context(), "acme"); !errors.Is(err, errUncounted) {
				t.Errorf("without a ctx that ends: %v", err)
			}
		}
		if reads != 1 {
			t.Errorf("%d reads", reads)
		}
		if err := broker.Wait(t.Context(), DeadLettersEvery); err != nil {
			t.Fatal(err)
		}
		l.read = func(context.Context, string) (deadletter.Size, error) {
			return deadletter.Size{Count: 1, MaxBytes: 1}, nil
		}
		if err := l.Check(t.Context(), "acme"); err != nil {
			t.Errorf("when JetStream answers: %v", err)
		}
	})
}

// TestDeadLettersThatWereResolvedSince checks that Reserve counts again before it reports
// ErrTenantBound, so that no video ends because of an old count.
func TestDeadLettersThatWereResolvedSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := config.Default()
		cfg.Limits.Tenant.MaxDeadLetters = 2
		l := NewDeadLetterQuota(config.NewLive(cfg), nil)
		letters := uint64(2)
		var failed error
		l.read = func(context.Context, string) (deadletter.Size, error) {
			return deadletter.Size{Count: letters, MaxBytes: 1 << 30}, failed
		}
		if err := l.Check(t.Context(), "acme"); !errors.Is(err, ErrTenantBound) {
			t.Fatalf("at the bound: %v", err)
		}
		letters = 1
		if err := l.Check(t.Context(), "acme"); !errors.Is(err, ErrTenantBound) {
			t.Errorf("a new request, by the count of just now: %v", err)
		}
		release, err := l.Reserve(t.Context(), "acme")
		if err != nil {
			t.Fatalf("a submission after a dead letter was resolved: %v", err)
		}
		if _, err := l.Reserve(t.Context(), "acme"); errcode.CodeOf(err) != errcode.DeadLettersFull || errors.Is(err, ErrTenantBound) {
			t.Errorf("while a submission is under way: %v", err)
		}
		release()
		letters = 2
		if err := broker.Wait(t.Context(), deadLettersFar); err != nil {
			t.Fatal(err)
		}
		failed = errors.New("no answer")
		if _, err := l.Reserve(t.Context(), "acme"); errors.Is(err, ErrTenantBound) {
			t.Errorf("by a count that JetStream did not confirm: %v", err)
		}
	})
}

// TestNoDeadLetterIsReservedTwice checks that concurrent calls do not reserve the same last dead
// letter. They wait until the mutex hands over from one to the next: a grant that had to lock it
// again to be counted would come after all grants.
func TestNoDeadLetterIsReservedTwice(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Limits.Tenant.MaxDeadLetters = 3
	l := NewDeadLetterQuota(config.NewLive(cfg), nil)
	l.read = func(context.Context, string) (deadletter.Size, error) {
		return deadletter.Size{Count: 2, MaxBytes: 1}, nil
	}
	if err := l.Check(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	var granted atomic.Int64
	var group sync.WaitGroup
	l.mu.Lock()
	for range 20 {
		group.Go(func() {
			if _, err := l.Reserve(t.Context(), "acme"); err == nil {
				granted.Add(1)
			}
		})
	}
	for range 2 { // the first waiter to wake up finds it locked
		if err := broker.Wait(t.Context(), 5*time.Millisecond); err != nil {
			t.Error(err)
		}
		l.mu.Unlock()
		l.mu.Lock()
	}
	l.mu.Unlock()
	group.Wait()
	if n := granted.Load(); n != 1 {
		t.Errorf("%d of 20 have the last dead letter", n)
	}
}
