package pool_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// with returns an upstream with named keys, or with one unnamed key.
func with(change func(*config.Upstream), keys ...string) config.Upstream {
	u := config.NewUpstream("http://upstream.invalid")
	for _, name := range keys {
		u.Keys = append(u.Keys, config.UpstreamKey{Name: name})
	}
	if change != nil {
		change(&u)
	}
	return u
}

// along returns a chat route over upstreams in this order.
func along(names ...string) config.Route {
	r := config.NewRoute("r", config.KindChat, "", "*")
	for _, name := range names {
		r.Upstreams = append(r.Upstreams, config.Target{Name: name})
	}
	return r
}

// pass advances the time of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

var aJob = pool.Job{ID: "video_1", Tenant: "acme"}

// get acquires a slot that must be free.
func get(t *testing.T, c *pool.Chooser, tried *pool.Tried) *pool.Slot {
	t.Helper()
	l, err := c.Acquire(tried)
	if err != nil {
		t.Fatalf("no key: %v", err)
	}
	return l
}

// next returns the key for a new job and releases the slot.
func next(t *testing.T, c *pool.Chooser) string {
	t.Helper()
	l := get(t, c, new(pool.Tried))
	defer l.Release()
	return l.UpstreamKey().String()
}

// report reports a call of a new job at the first key.
func report(t *testing.T, c *pool.Chooser, err *upstream.Error) string {
	t.Helper()
	l := get(t, c, new(pool.Tried))
	l.Report(c, aJob, err)
	l.Release()
	return l.UpstreamKey().String()
}

// expectBusy checks that every key is busy for that long, and returns the exact duration.
func expectBusy(t *testing.T, c *pool.Chooser, tried *pool.Tried, want time.Duration) time.Duration {
	t.Helper()
	l, err := c.Acquire(tried)
	var busy *pool.BusyError
	if !errors.As(err, &busy) {
		t.Fatalf("Acquire gave %v, %v; want busy", l, err)
	}
	got := time.Until(busy.Until)
	if got < want || got > want+time.Microsecond {
		t.Fatalf("busy for %v, want %v", got, want)
	}
	return got
}

// round returns the keys that one job goes through.
func round(t *testing.T, c *pool.Chooser) []string {
	t.Helper()
	var tried pool.Tried
	var keys []string
	for {
		l, err := c.Acquire(&tried)
		if err != nil {
			if !errors.Is(err, pool.ErrExhausted) {
				t.Fatalf("after %v: %v", keys, err)
			}
			return keys
		}
		keys = append(keys, l.UpstreamKey().String())
		l.Release()
	}
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Answers of upstreams, as their clients classify them.
var (
	badKey      = upstream.Error{HTTPStatus: 401, Reported: true, Written: true, Final: true, Scope: upstream.ScopeKey, Denial: upstream.KeyDenied}
	slowDown    = upstream.Error{HTTPStatus: 429, Reported: true, Written: true, Scope: upstream.ScopeKey}
	noModel     = upstream.Error{HTTPStatus: 503, Reported: true, Written: true, Final: true, Scope: upstream.ScopeUpstream}
	unavailable = upstream.Error{HTTPStatus: 503, Reported: true, Written: true, Scope: upstream.ScopeUpstream}
	broken      = upstream.Error{HTTPStatus: 200, Written: true, Scope: upstream.ScopeUpstream}
	noAnswer    = upstream.Error{Written: true, Scope: upstream.ScopeUpstream}
	notReached  = upstream.Error{Scope: upstream.ScopeUpstream}
	badRequest  = upstream.Error{HTTPStatus: 400, Reported: true, Written: true, Final: true}
	notBuilt    = upstream.Error{Final: true}
)

// asking returns a copy of an answer with RetryAfter.
func asking(e upstream.Error, after time.Duration) *upstream.Error {
	e.RetryAfter = after
	return &e
}

// expectMetrics checks that /metrics has each line, given without the genbus_ prefix.
func expectMetrics(t *testing.T, m *telemetry.Metrics, lines ...string) {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains(w.Body.String(), "\ngenbus_"+line+"\n") {
			t.Errorf("no %s in\n%s", line, upstreamLines(w.Body.String()))
		}
	}
}

func upstreamLines(body string) string {
	lines := strings.Split(body, "\n")
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "genbus_upstream") }), "\n")
}
