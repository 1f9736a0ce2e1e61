package quota

import (
	"errors"
	"fmt"
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

// all gives every tenant the same limits, and no unfinished job.
func all(l config.TenantLimits) Options {
	return Options{Limits: func(string) config.TenantLimits { return l }, Unfinished: func(string) int { return 0 }}
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

// TestLimitsMayChange: what a tenant has left is kept, up to the new burst.
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
		ask(false)              // the bucket fills with the new rate from here on
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

// TestBucketsAreBounded: who makes up tenants cannot fill the memory, and the
// tenant that goes on asking keeps its bucket.
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
	o.Unfinished = func(tenant string) int {
		if tenant != "acme" {
			return 0
		}
		return int(unfinished.Load())
	}
	q := New(o)
	unfinished.Store(1)
	first, err := q.Acquire("acme")
	if err != nil {
		t.Fatal(err)
	}
	second, err := q.Acquire("acme")
	if err != nil {
		t.Fatal(err)
	}
	var f *errcode.Error
	if _, err := q.Acquire("acme"); !errors.As(err, &f) || f.Code != errcode.TenantFull || f.RetryAfter != slotWait {
		t.Errorf("a fourth: %v", err)
	}
	if release, err := q.Acquire("globex"); err != nil {
		t.Errorf("another tenant: %v", err)
	} else {
		release()
	}
	first()
	unfinished.Store(2) // the first is a job now
	if _, err := q.Acquire("acme"); errcode.CodeOf(err) != errcode.TenantFull {
		t.Errorf("full again: %v", err)
	}
	second()
	third, err := q.Acquire("acme")
	if err != nil {
		t.Errorf("a place that was left: %v", err)
	}
	third()
	if len(q.acquired) != 0 {
		t.Errorf("what is left: %v", q.acquired)
	}
}

// TestNeverOneTooMany at once, on one replica.
func TestNeverOneTooMany(t *testing.T) {
	t.Parallel()
	const most = 10
	var inside, highest atomic.Int64
	q := New(all(config.TenantLimits{MaxJobs: most}))
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			release, err := q.Acquire("acme")
			if err != nil {
				return
			}
			defer release()
			n := inside.Add(1)
			defer inside.Add(-1)
			for {
				if h := highest.Load(); n <= h || highest.CompareAndSwap(h, n) {
					return
				}
			}
		})
	}
	group.Wait()
	if highest.Load() > most || len(q.acquired) != 0 {
		t.Errorf("%d at once, want at most %d; %v left", highest.Load(), most, q.acquired)
	}
}

func TestWithoutALimitOfJobsNothingIsKept(t *testing.T) {
	t.Parallel()
	q := New(all(config.TenantLimits{}))
	release, err := q.Acquire("acme")
	if err != nil || len(q.acquired) != 0 {
		t.Errorf("%v, %v", err, q.acquired)
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
