package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/telemetry"
)

// probe is a check with a settable result that counts its runs.
type probe struct {
	mu   sync.Mutex
	err  error
	runs int
}

func (p *probe) set(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

func (p *probe) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs
}

func (p *probe) check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs++
	return p.err
}

// pass advances the clock of a synctest bubble.
func pass(d time.Duration) { <-time.After(d) }

func get(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("cache control %q", got)
	}
	return w.Code, strings.TrimSpace(w.Body.String())
}

func expectAnswer(t *testing.T, h http.Handler, status int, body string) {
	t.Helper()
	gotStatus, gotBody := get(t, h)
	if gotStatus != status || gotBody != body {
		t.Errorf("got %d %s, want %d %s", gotStatus, gotBody, status, body)
	}
}

func TestHealthAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		expectAnswer(t, h.JobsReadyz(), 200, `{"status":"ready"}`)
		pass(time.Second)

		var broker, streams probe
		h.Add("jetstream", broker.check)
		h.Add("streams", streams.check)
		expectAnswer(t, h.JobsReadyz(), 200, `{"status":"ready"}`)
		pass(time.Second)

		broker.set(errors.New("no responders"))
		streams.set(errors.New(`stream "GENBUS_TASKS" is not writable`))
		expectAnswer(t, h.JobsReadyz(), 503, `{"status":"not_ready","reasons":[`+
			`{"check":"jetstream","reason":"no responders"},`+
			`{"check":"streams","reason":"stream \"GENBUS_TASKS\" is not writable"}]}`)
		expectAnswer(t, h.Readyz(), 200, `{"status":"ready"}`)
		expectAnswer(t, h.Healthz(), 200, `{"status":"ok"}`)
		pass(time.Second)

		broker.set(nil)
		streams.set(nil)
		expectAnswer(t, h.JobsReadyz(), 200, `{"status":"ready"}`)

		h.SetDraining()
		h.SetDraining()
		const draining = `{"status":"not_ready","reasons":[{"check":"draining","reason":"draining"}]}`
		expectAnswer(t, h.JobsReadyz(), 503, draining)
		expectAnswer(t, h.Readyz(), 503, draining)
		expectAnswer(t, h.Healthz(), 200, `{"status":"ok"}`)
	})
}

func TestHealthIsCachedForASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		var p probe
		h.Add("jetstream", p.check)
		for range 5 {
			h.ReadyForJobs(t.Context())
		}
		if n := p.count(); n != 1 {
			t.Errorf("%d runs within a second, want 1", n)
		}
		pass(999 * time.Millisecond)
		h.ReadyForJobs(t.Context())
		if n := p.count(); n != 1 {
			t.Errorf("%d runs after 999 ms, want 1", n)
		}
		pass(time.Millisecond)
		h.ReadyForJobs(t.Context())
		if n := p.count(); n != 2 {
			t.Errorf("%d runs after a second, want 2", n)
		}
	})
}

// TestHealthFailing checks that Failing keeps the time of a check's first failure until the check
// succeeds.
func TestHealthFailing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		var p probe
		h.Add("store", p.check)
		begin := time.Now()
		for _, row := range []struct {
			err  string
			want []telemetry.Failure
		}{
			{"", nil},
			{"full", []telemetry.Failure{{Reason: telemetry.Reason{Check: "store", Reason: "full"}, Since: begin.Add(time.Second)}}},
			{"broken", []telemetry.Failure{{Reason: telemetry.Reason{Check: "store", Reason: "broken"}, Since: begin.Add(time.Second)}}},
			{"", nil},
			{"full", []telemetry.Failure{{Reason: telemetry.Reason{Check: "store", Reason: "full"}, Since: begin.Add(4 * time.Second)}}},
		} {
			if p.set(nil); row.err != "" {
				p.set(errors.New(row.err))
			}
			h.ReadyForJobs(t.Context())
			if diff := cmp.Diff(row.want, h.Failing()); diff != "" {
				t.Errorf("%q (-want +got):\n%s", row.err, diff)
			}
			pass(time.Second)
		}
		p.set(errors.New("full"))
		h.ReadyForJobs(t.Context())
		h.SetDraining()
		if got := h.Failing(); got != nil {
			t.Errorf("while draining: %v", got)
		}
	})
}

func TestHealthReasonsBelongToTheCaller(t *testing.T) {
	t.Parallel()
	var h telemetry.Health
	h.Add("jetstream", func(context.Context) error { return errors.New("away") })
	_, first := h.ReadyForJobs(t.Context())
	first[0].Reason = "overwritten"
	if _, second := h.ReadyForJobs(t.Context()); second[0].Reason != "away" {
		t.Errorf("reason %q, want away", second[0].Reason)
	}
}

func TestHealthChecksRunSideBySideAndNotForever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		stuck := make(chan struct{})
		var entered atomic.Int32
		h.Add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		h.Add("stuck", func(context.Context) error { entered.Add(1); <-stuck; return nil })
		h.Add("quick", func(context.Context) error { return nil })
		began := time.Now()
		ready, reasons := h.ReadyForJobs(t.Context())
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
		if ready || len(reasons) != 2 || !strings.HasPrefix(reasons[0].Reason, "no answer after 2s") ||
			reasons[1] != (telemetry.Reason{Check: "stuck", Reason: "no answer after 2s"}) {
			t.Errorf("ready %v, reasons %v", ready, reasons)
		}
		pass(time.Second)
		_, reasons = h.ReadyForJobs(t.Context())
		if reasons[1].Reason != "still running since an earlier check" || entered.Load() != 1 {
			t.Errorf("reasons %v, %d runs of the stuck check, want 1", reasons, entered.Load())
		}
		close(stuck)
		pass(time.Second)
		if _, reasons = h.ReadyForJobs(t.Context()); len(reasons) != 1 || entered.Load() != 2 {
			t.Errorf("reasons %v, %d runs of the stuck check, want 2", reasons, entered.Load())
		}
	})
}

// TestHealthDoesNotWaitForChecks checks that Ready answers at once, whatever the broker does.
func TestHealthDoesNotWaitForChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		h.Add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		began := time.Now()
		expectAnswer(t, h.Readyz(), 200, `{"status":"ready"}`)
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
	})
}

// TestHealthSharesOneRound checks that concurrent callers share a round, even if the first caller
// leaves.
func TestHealthSharesOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		var runs atomic.Int32
		release := make(chan struct{})
		h.Add("jetstream", func(ctx context.Context) error {
			runs.Add(1)
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		first, leave := context.WithCancel(t.Context())
		impatient, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("prober left"))
		defer cancel()
		var ready atomic.Int32
		var wg sync.WaitGroup
		ask := func(ctx context.Context) {
			wg.Go(func() {
				if ok, _ := h.ReadyForJobs(ctx); ok {
					ready.Add(1)
				}
			})
			synctest.Wait()
		}
		ask(first)
		ask(t.Context())
		leave()
		ok, reasons := h.ReadyForJobs(impatient)
		want := []telemetry.Reason{{Check: "health", Reason: "checks still running: prober left"}}
		if diff := cmp.Diff(want, reasons); ok || diff != "" {
			t.Errorf("ready %v (-want +got):\n%s", ok, diff)
		}
		close(release)
		wg.Wait()
		if ready.Load() != 2 || runs.Load() != 1 {
			t.Errorf("%d of 2 callers heard ready, %d runs, want 1", ready.Load(), runs.Load())
		}
	})
}

func TestHealthReasonIsShort(t *testing.T) {
	t.Parallel()
	var h telemetry.Health
	h.Add("jetstream", func(context.Context) error { return errors.New("x" + strings.Repeat("é", 1000)) })
	_, reasons := h.ReadyForJobs(t.Context())
	if n := len(reasons[0].Reason); n > 512 || n < 500 || !utf8.ValidString(reasons[0].Reason) {
		t.Errorf("reason of %d bytes: %q", n, reasons[0].Reason)
	}
}

func TestHealthNotifiesTheWatchers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		var p probe
		h.Add("jetstream", p.check)
		told := make(chan string, 16)
		h.Watch(func(ready bool, reasons []telemetry.Reason) {
			if ready {
				told <- "ready"
				return
			}
			told <- reasons[0].Check
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- h.Run(ctx) }()
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-told:
				if got != want {
					t.Errorf("told %s, want %s", got, want)
				}
			default:
				t.Errorf("told nothing, want %s", want)
			}
		}
		expect("ready")
		p.set(errors.New("away"))
		pass(2 * time.Second)
		expect("jetstream")
		p.set(errors.New("away for 3 s")) // a new text is not a change
		pass(10 * time.Second)
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("told %s though nothing changed", <-told)
		}
		p.set(nil)
		pass(2 * time.Second)
		expect("ready")
		h.SetDraining()
		expect("draining") // at once, not at the next tick
		checked := p.count()
		pass(4 * time.Second)
		if p.count() == checked {
			t.Error("the checks do not go on while draining")
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if len(told) != 0 {
			t.Errorf("told %s at the end", <-told)
		}
	})
}

func TestHealthRunEndsDuringACheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var h telemetry.Health
		h.Add("slow", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		h.Watch(func(bool, []telemetry.Reason) { t.Error("told something at the end") })
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		began := time.Now()
		if err := h.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}
