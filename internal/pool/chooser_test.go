package pool_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestOneKeyOfOneUpstream(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(config.NewRoute("r", config.KindVideo, "a", "*"))
	l := get(t, c, new(pool.Tried))
	if want := (pool.UpstreamKey{Upstream: "a"}); l.UpstreamKey() != want {
		t.Errorf("key %v, want %v", l.UpstreamKey(), want)
	}
	expect(t, round(t, c), "a")
}

func TestUpstreamsInTheRoutesOrder(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(nil, "1", "2"), "b": with(nil), "c": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(along("b", "a", "nobody", "c"))
	expect(t, round(t, c), "b", "a/1", "a/2", "c")
}

func TestKeysTakeTurns(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(nil, "1", "2", "3")}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c, other := p.Chooser(along("a")), p.Chooser(along("a"))
	expect(t, []string{next(t, c), next(t, other), next(t, c), next(t, c)}, "a/1", "a/2", "a/3", "a/1")
	p.Resume(pool.UpstreamKey{Upstream: "a", Key: "2"}) // takes no turn
	expect(t, []string{next(t, c), next(t, c)}, "a/2", "a/3")
}

func TestNobodyToGoTo(t *testing.T) {
	t.Parallel()
	c := pool.New(nil, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(along("a"))
	if _, err := c.Acquire(new(pool.Tried)); !errors.Is(err, pool.ErrExhausted) {
		t.Errorf("got %v, want ErrExhausted", err)
	}
}

// weighted returns a route over upstreams a, b and c with these weights.
func weighted(weights ...int) (config.Upstreams, config.Route) {
	ups, r := config.Upstreams{}, along("a", "b", "c")
	for i, w := range weights {
		ups[r.Upstreams[i].Name] = with(nil)
		r.Upstreams[i].Weight = w
	}
	return ups, r
}

func TestWeightsShareTheJobs(t *testing.T) {
	t.Parallel()
	ups, r := weighted(1, 0, 3)
	c := pool.New(ups, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(r)
	const jobs = 4000
	got := map[string]float64{}
	for range jobs {
		got[next(t, c)]++
	}
	// Seven standard deviations.
	if share := got["c"] / jobs; math.Abs(share-0.75) > 0.05 || got["b"] > 0 {
		t.Errorf("shares %v, want 1:0:3", got)
	}
}

func TestTheHeaviestFollowTheFirst(t *testing.T) {
	t.Parallel()
	ups, r := weighted(1, 2, 3)
	c := pool.New(ups, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(r)
	orders := map[string][]string{"a": {"a", "c", "b"}, "b": {"b", "c", "a"}, "c": {"c", "b", "a"}}
	seen := map[string]bool{}
	for range 200 {
		keys := round(t, c)
		seen[keys[0]] = true
		expect(t, keys, orders[keys[0]]...)
	}
	if len(seen) != 3 {
		t.Errorf("jobs began at %v only", seen)
	}
}

func TestAWeightlessUpstreamTakesOver(t *testing.T) {
	t.Parallel()
	ups, r := weighted(1, 0, 3)
	for _, name := range []string{"a", "c"} {
		ups[name] = with(func(u *config.Upstream) { u.MaxConcurrent = 1 })
	}
	c := pool.New(ups, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(r)
	get(t, c, new(pool.Tried))
	get(t, c, new(pool.Tried))
	expect(t, []string{next(t, c), next(t, c)}, "b", "b")
}

func TestConcurrencyOfEachKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) { u.MaxConcurrent = 2 }, "1", "2")}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		var slots []*pool.Slot
		var keys []string
		for range 4 {
			l := get(t, c, new(pool.Tried))
			slots, keys = append(slots, l), append(keys, l.UpstreamKey().String())
		}
		expect(t, keys, "a/1", "a/2", "a/1", "a/2")
		expectBusy(t, c, new(pool.Tried), time.Second)
		slots[3].Release()
		slots[3].Release() // returns only one slot
		expect(t, []string{get(t, c, new(pool.Tried)).UpstreamKey().String()}, "a/2")
		expectBusy(t, c, new(pool.Tried), time.Second)
	})
}

func TestResumedTasksCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) { u.MaxConcurrent = 1 })}, pool.Options{Metrics: m})
		c := p.Chooser(along("a"))
		a := pool.UpstreamKey{Upstream: "a"}
		first, second := p.Resume(a), p.Resume(a) // never refused
		if first.UpstreamKey() != a {
			t.Errorf("key %v, want %v", first.UpstreamKey(), a)
		}
		expectMetrics(t, m, `upstream_in_hand{upstream="a"} 2`)
		first.Release()
		expectBusy(t, c, new(pool.Tried), time.Second)
		second.Release()
		expect(t, []string{next(t, c)}, "a")
		expectMetrics(t, m, `upstream_in_hand{upstream="a"} 0`)
	})
}

func TestUnknownKeysAreResumed(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) { u.MaxConcurrent = 1 }, "1")}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(along("a"))
	for _, a := range []pool.UpstreamKey{{Upstream: "gone", Key: "1"}, {Upstream: "a", Key: "gone"}, {}} {
		l := p.Resume(a)
		if l.UpstreamKey() != a {
			t.Errorf("key %v, want %v", l.UpstreamKey(), a)
		}
		l.Report(c, aJob, &badKey)
		l.Report(c, aJob, nil)
		l.Begun()
		expect(t, []string{next(t, c)}, "a/1") // neither counted nor paused
		l.Release()
		l.Release()
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) { u.RatePerSecond = 2.5 })}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		for range 3 { // the burst
			next(t, c)
		}
		for range 5 {
			expectBusy(t, c, new(pool.Tried), 400*time.Millisecond)
			pass(400 * time.Millisecond)
			next(t, c)
		}
	})
}

// TestRateIsGivenBack proves that a job refused by another rule does not use the rate.
func TestRateIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) {
			u.RatePerSecond, u.Breaker = 0.1, config.Breaker{Failures: 1, OpenFor: time.Minute}
		})}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		report(t, c, &noAnswer)
		pass(time.Minute + 1)
		probe := get(t, c, new(pool.Tried))
		pass(10 * time.Second)
		for range 3 {
			expectBusy(t, c, new(pool.Tried), time.Second) // the breaker
		}
		probe.Report(c, aJob, nil)
		expect(t, []string{next(t, c)}, "a")
	})
}

func TestTheEarliestPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2"), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a", "b"))
		report(t, p.Chooser(along("a")), asking(slowDown, 30*time.Second)) // a/1
		report(t, p.Chooser(along("a")), asking(slowDown, 20*time.Second)) // a/2
		report(t, p.Chooser(along("b")), asking(slowDown, 10*time.Second))
		expectBusy(t, c, new(pool.Tried), 10*time.Second)
		pass(10 * time.Second)
		var tried pool.Tried
		if got := get(t, c, &tried).UpstreamKey().String(); got != "b" {
			t.Errorf("went to %s, want b", got)
		}
		expectBusy(t, c, &tried, 10*time.Second) // keys already tried do not count
	})
}

func TestMovesAreCounted(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	p := pool.New(config.Upstreams{"a": with(nil, "1", "2"), "b": with(nil)}, pool.Options{Metrics: m})
	round(t, p.Chooser(along("a", "b"))) // a/1, a/2, b: one move between upstreams
	expectMetrics(t, m, `upstream_failovers_total{upstream="a"} 1`, `upstream_failovers_total{upstream="b"} 0`)
}
