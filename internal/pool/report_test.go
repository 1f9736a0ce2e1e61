package pool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

func TestKeysWaitAsRequested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2")}, pool.Options{Metrics: m})
		c := p.Chooser(along("a"))
		report(t, c, asking(slowDown, 7*time.Second))
		expect(t, []string{next(t, c), next(t, c)}, "a/2", "a/2")
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		report(t, c, asking(slowDown, 5*time.Second))
		expectBusy(t, c, new(pool.Tried), 5*time.Second)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 2`)
		pass(5 * time.Second)
		synctest.Wait()
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		expect(t, []string{next(t, c), next(t, c)}, "a/2", "a/2")
		pass(2 * time.Second)
		synctest.Wait()
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
		expect(t, []string{next(t, c), next(t, c)}, "a/1", "a/2")
	})
}

func TestWaitsDouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
			wait := time.Duration(seconds) * time.Second
			// Concurrent calls that must slow down count once.
			one, two := get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried))
			one.Report(c, aJob, &slowDown)
			two.Report(c, aJob, &slowDown)
			expectBusy(t, c, new(pool.Tried), wait)
			pass(wait)
		}
		report(t, c, nil)
		report(t, c, &slowDown)
		expectBusy(t, c, new(pool.Tried), time.Second)
	})
}

// TestOldCallsChangeNoWait proves that calls from before a pause neither extend nor end it.
func TestOldCallsChangeNoWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		well, badly := get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried))
		report(t, c, &slowDown)
		pass(2 * time.Second)
		badly.Report(c, aJob, &slowDown)
		well.Report(c, aJob, nil)
		report(t, c, &slowDown)
		expectBusy(t, c, new(pool.Tried), 2*time.Second)
	})
}

func TestAShorterWaitDoesNotShorten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		one, two := get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried))
		one.Report(c, aJob, asking(slowDown, time.Minute))
		two.Report(c, aJob, asking(slowDown, time.Second))
		expectBusy(t, c, new(pool.Tried), time.Minute)
	})
}

func TestPollsThatMustSlowDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		resumed := p.Resume(pool.UpstreamKey{Upstream: "a"})
		for _, wait := range []time.Duration{time.Second, 2 * time.Second} {
			resumed.Report(c, aJob, &slowDown)
			resumed.Report(c, aJob, &slowDown)
			expectBusy(t, c, new(pool.Tried), wait)
			pass(wait)
		}
	})
}

func TestRefusedKeysCoolDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2"), "b": with(nil)}, pool.Options{Metrics: m})
		c := p.Chooser(along("a", "b"))
		report(t, c, &badKey)
		expect(t, round(t, c), "a/2", "b", "a/1") // last
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		pass(5 * time.Minute)
		synctest.Wait()
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
		if got := round(t, c); got[2] != "b" {
			t.Errorf("got %v, want b last again", got)
		}
		p.Resume(pool.UpstreamKey{Upstream: "a", Key: "1"}).Report(c, aJob, &badKey)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		pass(5 * time.Minute)
		synctest.Wait()
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
	})
}

func TestAnOnlyKeyIsTriedDuringItsCooldown(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(along("a"))
	for range 3 {
		expect(t, []string{report(t, c, &badKey)}, "a")
	}
}

// TestCoolingKeysDoNotReplaceBusyOnes proves that a job prefers a busy key over a key in cooldown,
// but waits no longer than the cooldown.
func TestCoolingKeysDoNotReplaceBusyOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2")}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		report(t, c, &badKey)
		report(t, c, asking(slowDown, time.Hour))
		expectBusy(t, c, new(pool.Tried), 5*time.Minute)
		pass(5 * time.Minute)
		expect(t, []string{next(t, c)}, "a/1")
	})
}

func TestASuccessEndsTheCooldown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2")}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a"))
		old := get(t, c, new(pool.Tried)) // a/1
		second := get(t, c, new(pool.Tried))
		pass(time.Second)
		resumed := p.Resume(pool.UpstreamKey{Upstream: "a", Key: "1"})
		resumed.Report(c, aJob, &badKey)
		pass(time.Second)
		old.Report(c, aJob, nil)     // began before
		resumed.Report(c, aJob, nil) // polls may succeed where jobs do not
		expect(t, round(t, c), "a/2", "a/1")
		second.Report(c, aJob, &badKey)
		pass(time.Second)
		expect(t, []string{report(t, c, nil)}, "a/2") // both are in cooldown, so one is tried
		expect(t, []string{next(t, c), next(t, c)}, "a/2", "a/2")
	})
}

func TestUpstreamsWaitAsRequested(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil, "1", "2"), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(along("a", "b"))
		report(t, c, asking(unavailable, 20*time.Second))
		expect(t, round2(t, c, 20*time.Second), "b")
		p.Resume(pool.UpstreamKey{Upstream: "a"}).Report(c, aJob, asking(unavailable, time.Second)) // not shortened
		pass(20*time.Second - 1)
		expect(t, round2(t, c, 1), "b")
		pass(1)
		expect(t, []string{next(t, c)}, "a/2")
		report(t, c, asking(noModel, time.Hour)) // final, so there is no wait
		expect(t, []string{next(t, c)}, "a/2")
	})
}

// round2 returns the key of one round, after which the others are busy.
func round2(t *testing.T, c *pool.Chooser, busy time.Duration) []string {
	t.Helper()
	var tried pool.Tried
	l := get(t, c, &tried)
	defer l.Release()
	expectBusy(t, c, &tried, busy)
	return []string{l.UpstreamKey().String()}
}

// fragile returns a pool of one upstream whose breaker opens at the third failure for ten seconds.
func fragile(m *telemetry.Metrics) (*pool.Pool, *pool.Chooser) {
	p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) {
		u.Breaker = config.Breaker{Failures: 3, OpenFor: 10 * time.Second}
	})}, pool.Options{Metrics: m})
	return p, p.Chooser(along("a"))
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		_, c := fragile(m)
		report(t, c, &noAnswer)
		report(t, c, &notReached)
		report(t, c, nil) // resets the count
		report(t, c, &noAnswer)
		report(t, c, &unavailable)
		expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 0`)
		report(t, c, &broken)
		open := expectBusy(t, c, new(pool.Tried), 10*time.Second)
		expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 1`)
		pass(open)
		probe := get(t, c, new(pool.Tried))
		expectBusy(t, c, new(pool.Tried), time.Second) // one probe at a time
		probe.Report(c, aJob, &noAnswer)
		expectBusy(t, c, new(pool.Tried), 10*time.Second)
		pass(10*time.Second + 1)
		expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 1`)
		report(t, c, nil)
		expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 0`)
		one, two := get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried))
		one.Release()
		two.Release()
	})
}

func TestWhatTheBreakerCounts(t *testing.T) {
	t.Parallel()
	gaveUp := upstream.Error{Code: chat.CodeCancelled, Written: true, Scope: upstream.ScopeUpstream}
	canceled := upstream.Error{Err: context.Canceled, Written: true, Scope: upstream.ScopeUpstream}
	late := upstream.Error{Code: chat.CodeTotalTimeout, Err: context.DeadlineExceeded, Written: true}
	longStream := late
	longStream.HTTPStatus = 200
	for name, row := range map[string]struct {
		err  *upstream.Error
		want string // failure, success, nothing
	}{
		"went well":               {nil, "success"},
		"refused request":         {&badRequest, "success"},
		"refused key":             {&badKey, "success"},
		"slow down":               {&slowDown, "success"},
		"no such model":           {&noModel, "success"},
		"a stream that took long": {&longStream, "success"},
		"unavailable":             {&unavailable, "failure"},
		"unreadable":              {&broken, "failure"},
		"no answer":               {&noAnswer, "failure"},
		"no answer in all time":   {&late, "failure"},
		"not reached":             {&notReached, "failure"},
		"the caller gave up":      {&gaveUp, "nothing"},
		"the context was ended":   {&canceled, "nothing"},
		"could not be built":      {&notBuilt, "nothing"},
		"no such path, not said":  {&upstream.Error{HTTPStatus: 404, Written: true, Scope: upstream.ScopeUpstream}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := telemetry.NewMetrics("v1")
				_, c := fragile(m)
				report(t, c, &noAnswer)
				report(t, c, &noAnswer)
				report(t, c, row.err)
				if row.want == "failure" {
					expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 1`)
					return
				}
				expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 0`)
				pass(time.Second) // a key that must slow down
				report(t, c, &noAnswer)
				if row.want == "nothing" {
					expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 1`)
					return
				}
				expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 0`)
			})
		})
	}
}

// TestNoBreaker proves that failures: 0 disables the breaker.
func TestNoBreaker(t *testing.T) {
	t.Parallel()
	p := pool.New(config.Upstreams{"a": with(func(u *config.Upstream) { u.Breaker.Failures = 0 })}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(along("a"))
	for range 100 {
		report(t, c, &noAnswer)
	}
	expect(t, []string{next(t, c)}, "a")
}

// TestAnUnusedProbe proves that a slot released without a call neither closes the breaker nor
// blocks the next probe.
func TestAnUnusedProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := fragile(telemetry.NewMetrics("v1"))
		for range 3 {
			report(t, c, &noAnswer)
		}
		pass(10*time.Second + 1)
		next(t, c)
		probe := get(t, c, new(pool.Tried))
		expectBusy(t, c, new(pool.Tried), time.Second)
		probe.Report(c, aJob, nil)
	})
}

func TestALongAnswerClosesTheBreakerWhenItBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, c := fragile(telemetry.NewMetrics("v1"))
		for range 3 {
			report(t, c, &noAnswer)
		}
		pass(10*time.Second + 1)
		probe := get(t, c, new(pool.Tried))
		probe.Begun()
		report(t, c, &noAnswer)
		report(t, c, &noAnswer)
		probe.Begun()                  // once
		probe.Report(c, aJob, &broken) // the end still counts
		expectBusy(t, c, new(pool.Tried), 10*time.Second)
	})
}

// TestPollsAndTheBreaker proves that reports of a resumed slot neither open nor reset the breaker.
func TestPollsAndTheBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, c := fragile(telemetry.NewMetrics("v1"))
		resumed := p.Resume(pool.UpstreamKey{Upstream: "a"})
		job := get(t, c, new(pool.Tried))
		job.Report(c, aJob, nil)
		for range 10 {
			resumed.Report(c, aJob, &noAnswer)
			job.Report(c, aJob, &noAnswer)
		}
		for range 3 {
			resumed.Report(c, aJob, nil)
			job.Report(c, aJob, nil)
			report(t, c, &noAnswer)
		}
		expectBusy(t, c, new(pool.Tried), 10*time.Second)
		pass(10*time.Second + 1)
		resumed.Report(c, aJob, asking(slowDown, time.Minute)) // still pauses the key
		expectBusy(t, c, new(pool.Tried), time.Minute)
	})
}
