package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestStateReportsDecisions proves that State reports pauses, cooldowns, breakers and recent
// failures.
func TestStateReportsDecisions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := pool.New(config.Upstreams{
			"a": with(func(u *config.Upstream) { u.MaxConcurrent = 3 }, "1", "2"),
			"b": with(func(u *config.Upstream) { u.Breaker = config.Breaker{Failures: 2, OpenFor: 30 * time.Second} }),
		}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
		a, b := p.Chooser(along("a")), p.Chooser(along("b"))
		report(t, a, &badKey)
		held := get(t, a, new(pool.Tried))
		held.Report(a, aJob, asking(slowDown, 7*time.Second))
		report(t, b, nil)
		report(t, b, &unavailable)
		report(t, b, &noAnswer)
		p.Polled("b", &unavailable)
		p.Polled("b", nil)
		p.Polled("gone", nil)
		got := p.State()
		if len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
			t.Fatalf("%+v", got)
		}
		one, two := got[0].Keys[0], got[0].Keys[1]
		if want := (pool.KeyState{Name: "1", MaxInUse: 3, CooldownUntil: begin.Add(5 * time.Minute), RefusedSince: begin, Status: 401}); one != want {
			t.Errorf("got %+v, want %+v", one, want)
		}
		if want := (pool.KeyState{Name: "2", InUse: 1, MaxInUse: 3, PausedUntil: begin.Add(7 * time.Second), Status: 429}); two != want {
			t.Errorf("got %+v, want %+v", two, want)
		}
		if u := got[0]; u.Breaker != pool.BreakerClosed || u.Calls != 2 || u.Failed != 1 || u.LastError != `status 401, code ""` || !u.LastErrorAt.Equal(begin) {
			t.Errorf("%+v", u)
		}
		if u := got[1]; u.Breaker != pool.BreakerOpen || !u.Since.Equal(begin) || !u.Until.Equal(begin.Add(30*time.Second+1)) || u.Calls != 3 || u.Failed != 2 || u.LastError == "" || !u.LastErrorAt.Equal(begin) {
			t.Errorf("%+v", u)
		}
		if u := got[1]; u.Polls != 2 || u.PollsFailed != 1 || u.LastPollError != `status 503, code ""` {
			t.Errorf("%+v", u)
		}
		pass(31 * time.Second)
		if u := p.State()[1]; u.Breaker != pool.BreakerHalfOpen || !u.Since.Equal(begin) {
			t.Errorf("%+v", u)
		}
		report(t, b, &unavailable) // opens again
		if u := p.State()[1]; u.Breaker != pool.BreakerOpen || !u.Since.Equal(begin) {
			t.Errorf("%+v", u)
		}
		pass(6 * time.Minute)
		got = p.State()
		if k := got[0].Keys[0]; !k.CooldownUntil.IsZero() || !k.RefusedSince.IsZero() || k.Status != 0 {
			t.Errorf("%+v", k)
		}
		if u := got[1]; u.Calls != 0 || u.Failed != 0 || u.Polls != 0 || u.LastError == "" {
			t.Errorf("after some minutes: %+v", u)
		}
		held.Release()
	})
}
