package quota

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// all gives every tenant the same limits and no unfinished jobs.
func all(l config.TenantLimits) Options {
	return Options{Limits: func(string) config.TenantLimits { return l }, Unfinished: func(context.Context, string) (int, bool) { return 0, true }}
}

func TestRequestsOfATenant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New(all(config.TenantLimits{RequestsPerSecond: 2, Burst: 3}))
		for i := range 3 {
			if err := q.Request("acme"); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		}
		var f *errcode.Error
		for range 5 { // a refusal costs nothing
			if err := q.Request("acme"); !errors.As(err, &f) || f.Code != errcode.RateLimited || f.RetryAfter != 500*time.Millisecond {
				t.Errorf("beyond the burst: %v", err)
			}
		}
		if err := q.Request("globex"); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		time.Sleep(f.RetryAfter) //nolint:forbidigo // the clock is the test's
		if err := q.Request("acme"); err != nil {
			t.Errorf("after Retry-After: %v", err)
		}
		if err := q.Request("acme"); errcode.CodeOf(err) != errcode.RateLimited {
			t.Errorf("one more: %v", err)
		}
	})
}

// TestLimitsMayChange checks that changing limits keeps a tenant's remaining requests, up to the
// new burst.
func TestLimitsMayChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limits := config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}
		o := all(limits)
		o.Limits = func(string) config.TenantLimits { return limits }
		q := New(o)
		ask := func(want bool) {
			t.Helper()
			if err := q.Request("acme"); (err == nil) != want {
				t.Errorf("%v", err)
			}
		}
		ask(true)
		ask(false)
		limits = config.TenantLimits{RequestsPerSecond: 10, Burst: 2}
		ask(false)              // the bucket now fills at the new rate
		time.Sleep(time.Second) //nolint:forbidigo // the clock is the test's
		ask(true)
		ask(true)
		ask(false)
		limits = config.TenantLimits{}
		ask(true)
	})
}

func TestWithoutARateNothingIsKept(t *testing.T) {
	t.Parallel()
	q := New(all(config.TenantLimits{}))
	for i := range 1000 {
		if err := q.Request(strconv.Itoa(i % 7)); err != nil {
			t.Fatal(err)
		}
	}
	if len(q.buckets) != 0 {
		t.Errorf("%d buckets", len(q.buckets))
	}
}

// TestBucketsAreBounded checks that invented tenants cannot fill the memory, and that an active
// tenant keeps its bucket.
func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	q := New(all(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}))
	if err := q.Request("busy"); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxBuckets {
		if err := q.Request(fmt.Sprintf("tenant-%d", i)); err != nil {
			t.Fatal(err)
		}
		if i%(maxBuckets/2) == 0 && errcode.CodeOf(q.Request("busy")) != errcode.RateLimited {
			t.Fatal("a tenant that goes on asking got a new bucket")
		}
	}
	if len(q.buckets) != maxBuckets || q.recent.Len() != maxBuckets {
		t.Errorf("%d buckets in the map and %d in the list", len(q.buckets), q.recent.Len())
	}
}

func TestPlacesOfATenant(t *testing.T) {
	t.Parallel()
	var unfinished atomic.Int64
	o := all(config.TenantLimits{MaxJobs: 3})
	o.Unfinished = func(_ context.Context, tenant string) (int, bool) {
		if tenant != "acme" {
			return 0, true
		}
		return int(unfinished.Load()), true
	}
	q := New(o)
	unfinished.Store(1)
	first, err := q.Acquire(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	second, err := q.Acquire(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	var f *errcode.Error
	if _, err := q.Acquire(t.Context(), "acme"); !errors.As(err, &f) || f.Code != errcode.TenantFull || f.RetryAfter != slotWait {
		t.Errorf("a fourth: %v", err)
	}
	if release, err := q.Acquire(t.Context(), "globex"); err != nil {
		t.Errorf("another tenant: %v", err)
	} else {
		release()
	}
	first()
	unfinished.Store(2) // the first one is a job now
	if _, err := q.Acquire(t.Context(), "acme"); errcode.CodeOf(err) != errcode.TenantFull {
		t.Errorf("full again: %v", err)
	}
	second()
	third, err := q.Acquire(t.Context(), "acme")
	if err != nil {
		t.Errorf("a place that was left: %v", err)
	}
	third()
	if n := q.slots.tenants["acme"].held; n != 0 {
		t.Errorf("%d slots are left", n)
	}
}

// ledger counts a tenant's accepted jobs like the log.
type ledger struct {
	jobs   atomic.Int64
	silent atomic.Bool
	asked  atomic.Int64
}

func (l *ledger) unfinished(context.Context, string) (int, bool) {
	l.asked.Add(1)
	n := int(l.jobs.Load())
	runtime.Gosched() // let others store jobs
	if l.silent.Load() {
		return 0, false
	}
	return n, true
}

// TestNeverOneTooMany checks that concurrent callers never exceed the limit on one replica.
func TestNeverOneTooMany(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1, 10, 150} {
		var l ledger
		o := all(config.TenantLimits{MaxJobs: most})
		o.Unfinished = l.unfinished
		q := New(o)
		var group sync.WaitGroup
		for range 200 {
			group.Go(func() {
				release, err := q.Acquire(t.Context(), "acme")
				if err != nil {
					return
				}
				l.jobs.Add(1)
				release()
			})
		}
		group.Wait()
		if n := l.jobs.Load(); n > int64(most) || n == 0 {
			t.Errorf("%d jobs, want at most %d", n, most)
		}
		if n := q.slots.tenants["acme"].held; n != 0 {
			t.Errorf("%d slots are left", n)
		}
	}
}

// TestASlotThatIsFreeIsGiven checks that a slot can be taken as soon as a job has ended, and that a
// refusal uses a fresh count.
func TestASlotThatIsFreeIsGiven(t *testing.T) {
	t.Parallel()
	var l ledger
	o := all(config.TenantLimits{MaxJobs: 3})
	o.Unfinished = l.unfinished
	q := New(o)
	for i := range 50 {
		release, err := q.Acquire(t.Context(), "acme")
		if err != nil {
			t.Fatalf("job %d: %v", i, err)
		}
		l.jobs.Add(1)
		release()
		if i >= 2 {
			if _, err := q.Acquire(t.Context(), "acme"); errcode.CodeOf(err) != errcode.TenantFull {
				t.Fatalf("a job above the limit: %v", err)
			}
			l.jobs.Add(-1)
		}
	}
}

// TestACountIsGoodForAFewSlots checks that far from the limit most calls need no new count.
func TestACountIsGoodForAFewSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		o := all(config.TenantLimits{MaxJobs: 3200})
		o.Unfinished = l.unfinished
		q := New(o)
		acquire := func(n int) {
			for range n {
				time.Sleep(time.Microsecond) //nolint:forbidigo // the clock is the test's
				release, err := q.Acquire(t.Context(), "acme")
				if err != nil {
					t.Fatal(err)
				}
				l.jobs.Add(1)
				release()
			}
		}
		acquire(100)
		if n := l.asked.Load(); n != 1 {
			t.Errorf("100 jobs asked %d times", n)
		}
		acquire(1)
		if n := l.asked.Load(); n != 2 {
			t.Errorf("101 jobs asked %d times", n)
		}
		time.Sleep(2 * countFresh) //nolint:forbidigo // the clock is the test's
		acquire(1)
		if n := l.asked.Load(); n != 3 {
			t.Errorf("one that came later asked %d times", n)
		}
	})
}

// TestWithoutAnAnswer checks that without answers the last count applies for a minute, and then
// only the slots taken since.
func TestWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l ledger
		o := all(config.TenantLimits{MaxJobs: 3})
		o.Unfinished = l.unfinished
		q := New(o)
		l.jobs.Store(1)
		free := func(want int) {
			t.Helper()
			n := 0
			for range 10 {
				time.Sleep(time.Microsecond) //nolint:forbidigo // the clock is the test's
				if release, err := q.Acquire(t.Context(), "acme"); err == nil {
					n++
					release()
				}
			}
			if n != want {
				t.Errorf("%d slots were free, want %d", n, want)
			}
		}
		held, err := q.Acquire(t.Context(), "acme") // keeps the count
		if err != nil {
			t.Fatal(err)
		}
		l.silent.Store(true)
		free(1)
		time.Sleep(expireAfter / 2) //nolint:forbidigo // the clock is the test's
		free(0)
		held()
		time.Sleep(expireAfter) //nolint:forbidigo // the clock is the test's
		free(3)
		free(0)
		l.silent.Store(false)
		free(10) // one at a time: none is stored
		l.jobs.Store(3)
		free(0)
	})
}

// TestACallerMayDisconnectWhileItWaits checks that a canceled caller returns while the others get
// the answer.
func TestACallerMayDisconnectWhileItWaits(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	o := all(config.TenantLimits{MaxJobs: 3})
	o.Unfinished = func(context.Context, string) (int, bool) {
		asked <- struct{}{}
		<-answer
		return 0, true
	}
	q := New(o)
	got := make(chan error, 1)
	go func() {
		_, err := q.Acquire(t.Context(), "acme")
		got <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := q.Acquire(ctx, "acme"); !errors.Is(err, context.Canceled) {
		t.Errorf("who has left: %v", err)
	}
	close(answer)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// TestInventedTenantsAreRemoved checks that invented tenants are removed, even if their jobs cannot
// be counted.
func TestInventedTenantsAreRemoved(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var l ledger
			l.silent.Store(silent)
			o := all(config.TenantLimits{MaxJobs: 3})
			o.Unfinished = l.unfinished
			q := New(o)
			for i := range 3 * sweepAbove {
				release, err := q.Acquire(t.Context(), fmt.Sprint("tenant-", i))
				if err != nil {
					t.Fatal(err)
				}
				release()
				time.Sleep(2 * expireAfter / sweepAbove) //nolint:forbidigo // the clock is the test's
			}
			if n := len(q.slots.tenants); n > sweepAbove+1 {
				t.Errorf("%d tenants are kept", n)
			}
		})
	}
}

func TestWithoutALimitOfJobsNothingIsKept(t *testing.T) {
	t.Parallel()
	q := New(all(config.TenantLimits{}))
	release, err := q.Acquire(t.Context(), "acme")
	if err != nil || len(q.slots.tenants) != 0 {
		t.Errorf("%v, %v", err, q.slots.tenants)
	}
	release()
}

func BenchmarkRequest(b *testing.B) {
	q := New(all(config.TenantLimits{RequestsPerSecond: 1e9, Burst: 1e9}))
	b.ReportAllocs()
	for b.Loop() {
		if err := q.Request("acme"); err != nil {
			b.Fatal(err)
		}
	}
}
