package pool_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// videosAlong returns a video route over upstreams in this order.
func videosAlong(names ...string) config.Route {
	r := along(names...)
	r.Kind, r.Timeouts.Create = config.KindVideo, time.Minute
	return r
}

// sent returns a submission with this error, accepted for nil and unknown by default.
func sent(err *upstream.Error) upstream.Submission {
	switch err {
	case nil:
		return upstream.Submission{Verdict: upstream.Accepted}
	case &badRequest:
		return upstream.Submission{Verdict: upstream.RefusedForGood, Err: err}
	case &notReached, &badKey:
		return upstream.Submission{Verdict: upstream.RefusedForNow, Err: err}
	default:
		return upstream.Submission{Verdict: upstream.Unknown, Err: err}
	}
}

// create reports a create of a new job at the first key.
func create(t *testing.T, c *pool.Chooser, err *upstream.Error) string {
	t.Helper()
	l := get(t, c, new(pool.Tried))
	l.ReportCreate(c, aJob, sent(err))
	l.Release()
	return l.UpstreamKey().String()
}

// TestCreatesAvoidAnUpstreamThatFailsThem proves that after a failed create, one trial per wait
// goes to the upstream, and that the wait doubles up to ten minutes until a trial succeeds.
func TestCreatesAvoidAnUpstreamThatFailsThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := telemetry.NewMetrics("v1")
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: m, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := p.Chooser(videosAlong("a", "b"))
		one, two, three := get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried)), get(t, c, new(pool.Tried))
		one.ReportCreate(c, aJob, sent(&unavailable))
		two.ReportCreate(c, aJob, sent(nil)) // began before the failure
		three.ReportCreate(c, aJob, sent(&noAnswer))
		for _, seconds := range []int{15, 30, 60, 120, 240, 480, 600, 600} {
			wait := time.Duration(seconds) * time.Second
			expect(t, []string{next(t, c), next(t, c)}, "b", "b")
			if a := p.State()[0]; a.Breaker != pool.BreakerOpen || a.Until.Before(time.Now().Add(wait)) {
				t.Errorf("%+v", a)
			}
			expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 1`)
			pass(wait - time.Millisecond)
			expect(t, []string{next(t, c)}, "b")
			pass(wait/10 + 2*time.Millisecond)
			trial := get(t, c, new(pool.Tried))
			expect(t, []string{trial.UpstreamKey().String(), next(t, c)}, "a", "b")
			trial.ReportCreate(c, aJob, sent(&unavailable))
			trial.Release()
		}
		if n := strings.Count(log.String(), "upstream breaker opened for creates"); n != 1 {
			t.Errorf("the log says %d times that it opened:\n%s", n, log.String())
		}
		pass(11 * time.Minute)
		expect(t, []string{create(t, c, nil), next(t, c)}, "a", "a")
		if a := p.State()[0]; a.Breaker != pool.BreakerClosed || !strings.Contains(log.String(), "upstream breaker closed for creates") {
			t.Errorf("%+v\n%s", a, log.String())
		}
		expectMetrics(t, m, `upstream_breaker_open{upstream="a"} 0`)
		create(t, c, &unavailable)
		pass(17 * time.Second)
		expect(t, []string{next(t, c)}, "a") // the first wait again
	})
}

// TestACreateThatHangsIsTheOnlyOneThatTries proves that one hanging create at a time is the trial,
// also while the breaker is open for all jobs, that its late outcome counts, and that a refusal for
// lack of capacity does not lengthen the wait.
func TestACreateThatHangsIsTheOnlyOneThatTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(videosAlong("a", "b"))
		var first []*pool.Slot
		for range 10 {
			first = append(first, get(t, c, new(pool.Tried)))
		}
		for _, l := range first {
			l.ReportCreate(c, aJob, sent(&noAnswer))
			l.Release()
		}
		pass(17 * time.Second)
		trial := get(t, c, new(pool.Tried))
		for range 12 {
			expect(t, []string{trial.UpstreamKey().String(), next(t, c)}, "a", "b")
			pass(5 * time.Second)
		}
		trial.ReportCreate(c, aJob, sent(&noAnswer))
		trial.Release()
		pass(29 * time.Second)
		expect(t, []string{next(t, c)}, "b")
		pass(5 * time.Second)
		full := get(t, c, new(pool.Tried))
		full.ReportCreate(c, aJob, upstream.Submission{Verdict: upstream.RefusedForNow, Err: &unavailable})
		full.Release()
		expect(t, []string{full.UpstreamKey().String(), next(t, c)}, "a", "b")
		pass(34 * time.Second)
		expect(t, []string{create(t, c, nil), next(t, c)}, "a", "a")
	})
}

// TestACreateWaitsForAKeyThatCoolsDown proves that a create waits for a key in cooldown instead of
// going to an upstream that fails creates.
func TestACreateWaitsForAKeyThatCoolsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(videosAlong("a", "b"))
		create(t, c, &badKey)
		expect(t, []string{create(t, c, &unavailable)}, "b")
		if l, err := c.Acquire(new(pool.Tried)); err == nil {
			t.Errorf("a create went to %s", l.UpstreamKey())
		}
		pass(17 * time.Second)
		expect(t, []string{create(t, c, nil), next(t, c)}, "b", "b")
	})
}

// TestWhatSaysNothingOfCreates proves that chats, refusals and unsent creates leave the breaker
// unchanged.
func TestWhatSaysNothingOfCreates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c, chats := p.Chooser(videosAlong("a", "b")), p.Chooser(along("a", "b"))
		report(t, chats, &unavailable)
		create(t, c, &badRequest)
		create(t, c, &notReached)
		expect(t, []string{next(t, c)}, "a")
		create(t, c, &unavailable)
		report(t, chats, nil)
		expect(t, []string{next(t, c), next(t, chats)}, "b", "a")
		pass(17 * time.Second)
		expect(t, []string{next(t, c), create(t, c, &badRequest), create(t, c, nil), next(t, c)}, "a", "a", "a", "a")
	})
}

// TestACreateWaitsForABetterUpstream proves that a create waits for an upstream that is busy, or
// has refused it temporarily, instead of going to one that fails creates.
func TestACreateWaitsForABetterUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(func(u *config.Upstream) { u.MaxConcurrent = 1 })}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c := p.Chooser(videosAlong("a", "b"))
		create(t, c, &unavailable)
		var tried pool.Tried
		held := get(t, c, &tried)
		expect(t, []string{held.UpstreamKey().String()}, "b")
		expectBusy(t, c, new(pool.Tried), time.Second)
		held.ReportCreate(c, aJob, upstream.Submission{Verdict: upstream.RefusedForNow, Err: &slowDown})
		held.Release()
		tried.RefusedForNow = true
		if l, err := c.Acquire(&tried); !errors.Is(err, pool.ErrExhausted) {
			t.Errorf("got %v, %v", l, err)
		}
	})
}

// TestWhereAllUpstreamsFailCreates proves that the upstream with the shortest wait comes first, and
// that a route with one upstream ignores the breaker for creates.
func TestWhereAllUpstreamsFailCreates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pool.New(config.Upstreams{"a": with(nil), "b": with(nil)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		c, only := p.Chooser(videosAlong("a", "b")), p.Chooser(videosAlong("a"))
		create(t, c, &unavailable)
		pass(17 * time.Second)
		expect(t, []string{create(t, c, &unavailable), create(t, c, &unavailable), next(t, c), next(t, only)}, "a", "b", "b", "a")
		expect(t, []string{create(t, c, nil), next(t, c)}, "b", "b")
	})
}

// TestABreakerOfNoFailuresIsNone proves that failures: 0 also disables the breaker for creates.
func TestABreakerOfNoFailuresIsNone(t *testing.T) {
	t.Parallel()
	never := with(func(u *config.Upstream) { u.Breaker.Failures = 0 })
	p := pool.New(config.Upstreams{"a": never, "b": never}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(videosAlong("a", "b"))
	create(t, c, &unavailable)
	expect(t, []string{next(t, c)}, "a")
}

// TestReplicasShareWhichUpstreamsFailCreates proves that replicas share the breaker state of
// creates, and that a new replica asks for it.
func TestReplicasShareWhichUpstreamsFailCreates(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	route := videosAlong("a", "b")
	replica := func(name string) *pool.Chooser {
		quick := with(func(u *config.Upstream) { u.Breaker.OpenFor = time.Second })
		p := pool.New(config.Upstreams{"a": quick, "b": quick}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		stop, err := p.Share(b.Conn(), b.Names().Upstreams(), name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return p.Chooser(route)
	}
	await := func(c *pool.Chooser, key string) *pool.Slot {
		t.Helper()
		for deadline := time.After(brokertest.Patience); ; {
			l := get(t, c, new(pool.Tried))
			if l.UpstreamKey().Upstream == key {
				return l
			}
			l.Release()
			select {
			case <-deadline:
				t.Fatalf("no create goes to %s", key)
			case <-time.After(time.Millisecond):
			}
		}
	}
	one, two := replica("1"), replica("2")
	expect(t, []string{create(t, one, &unavailable)}, "a")
	await(two, "b")
	three := replica("3")
	await(three, "b")
	await(one, "a").ReportCreate(one, aJob, sent(nil)) // the trial at the end of the wait
	for _, c := range []*pool.Chooser{one, two} {      // the third may have had an answer since
		for range 100 { // not just the end of a wait
			await(c, "a")
		}
	}
}
