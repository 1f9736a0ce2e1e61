package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestRetriesAreBounded proves that in an outage, retries are limited and first tries are not.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: m, Retry: config.Retry{Share: 0.5, PerSecond: 1}})
		c := p.Chooser(along("a", "b"))
		retries := func() (n int) {
			for {
				if _, err := c.Acquire(&pool.Tried{SentBefore: true}); err != nil {
					return n
				}
				n++
			}
		}
		expectNumber(t, "retries saved up", retries(), 10)
		expectBusy(t, c, &pool.Tried{SentBefore: true}, time.Second)

		// First tries are never held back, and two of them earn one retry.
		for range 4 {
			get(t, c, new(pool.Tried))
		}
		expectNumber(t, "retries earned", retries(), 2)

		// A failover is a retry too.
		var tried pool.Tried
		get(t, c, &tried)
		expectBusy(t, c, &tried, time.Second)
		pass(time.Second)
		expect(t, []string{get(t, c, &tried).UpstreamKey().String()}, "b")

		// So is a resend with the same key.
		next, ok := p.TryRetryBudget()
		if ok || !next.Equal(time.Now().Add(time.Second)) {
			t.Errorf("again %v at %v, want in a second", ok, next)
		}
		pass(time.Second)
		if _, ok := p.TryRetryBudget(); !ok {
			t.Error("not again after that second")
		}
		expectMetrics(t, m, `upstream_retries_total{outcome="held_back"} 5`, `upstream_retries_total{outcome="sent"} 14`)
	})
}

func TestCreditOfRetriesIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1"), Retry: config.Retry{Share: 1, PerSecond: 0.1}})
		c := p.Chooser(along("a"))
		for range 1000 {
			get(t, c, new(pool.Tried)).Release()
		}
		got := 0
		for _, ok := p.TryRetryBudget(); ok; _, ok = p.TryRetryBudget() {
			got++
		}
		expectNumber(t, "retries after a long quiet time", got, 2) // one earned, one of the floor
	})
}

func expectNumber(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}
