package sandbox_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const body = `{"model":"sandbox-video","prompt":"p","metadata":{"sandbox":{"status":429,"retry_after":"2","code":"busy","message":"later","times":2,"duration_ms":0}}}`
	for i, want := range []int{429, 429, 200, 200} {
		a := b.create(t, body, "Idempotency-Key", "k")
		if a.status != want {
			t.Fatalf("create %d: %d %s, want %d", i, a.status, a.body, want)
		}
		if want == 429 && (a.header.Get("Retry-After") != "2" || string(a.body) != `{"code":"busy","message":"later","data":null}`) {
			t.Errorf("refusal: Retry-After %q, body %s", a.header.Get("Retry-After"), a.body)
		}
		if want == 200 { // the script of the task remains
			if v := b.poll(t, idOf(t, a)).json(t); v["status"] != "completed" {
				t.Errorf("duration_ms was forgotten: %v", v)
			}
		}
	}
	if a := b.create(t, body, "Idempotency-Key", "other"); a.status != 429 {
		t.Errorf("another key: %d, want its own two refusals", a.status)
	}
	stats := b.Sandbox.Stats()
	if stats.MaxCreatesPerKey != 4 || stats.MaxAcceptsPerKey != 2 || stats.Tasks != 1 {
		t.Errorf("stats: %+v", stats)
	}
}

func TestDrops(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		drop  string
		tasks int
	}{{sandbox.DropBeforeAnswer, 0}, {sandbox.DropAfterCreate, 1}} {
		t.Run(c.drop, func(t *testing.T) {
			t.Parallel()
			b := setup(t, sandbox.Options{})
			body := `{"model":"sandbox-video:times=1,drop=` + c.drop + `","prompt":"p"}`
			a := b.create(t, body, "Idempotency-Key", "k")
			if !errors.Is(a.err, syscall.ECONNRESET) {
				t.Fatalf("got %d, error %v; want a reset connection", a.status, a.err)
			}
			if stats := b.Sandbox.Stats(); stats.Tasks != c.tasks || stats.CreatesPerKey["k"] != 1 || stats.MaxAcceptsPerKey != c.tasks {
				t.Errorf("stats after the drop: %+v, want %d tasks", stats, c.tasks)
			}
			idOf(t, b.create(t, body, "Idempotency-Key", "k"))
			if stats := b.Sandbox.Stats(); stats.Tasks != 1 || stats.CreatesPerKey["k"] != 2 {
				t.Errorf("stats after the second create: %+v", stats)
			}
		})
	}
}

func TestHangIsAcceptedAndEndsWithTheServer(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	arrived := make(chan struct{})
	b.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour {
		close(arrived)
		return &sandbox.Behaviour{Hang: true}
	})
	result := make(chan answer)
	go func() { result <- b.create(t, `{"model":"sandbox-video","prompt":"p"}`) }()
	<-arrived
	if err := b.Close(); err != nil {
		t.Errorf("close with a hanging request: %v", err)
	}
	if a := <-result; a.err == nil {
		t.Errorf("got %d %s, want a cut connection", a.status, a.body)
	}
	if n := b.Sandbox.Stats().Tasks; n != 1 {
		t.Errorf("%d tasks, want the hanging one", n)
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL()+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Sandbox", `{"hang":true}`)
	if _, err := b.client.Do(req); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // there is no body
		t.Errorf("got %v, want the client's own deadline", err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	before := time.Now()
	idOf(t, b.create(t, `{"model":"sandbox-video:delay_ms=80","prompt":"p"}`))
	if took := time.Since(before); took < 80*time.Millisecond {
		t.Errorf("create took %v, want at least 80ms", took)
	}
}

func TestWaysOfControl(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const video = `{"model":"sandbox-video:status=500","prompt":"p","metadata":{"sandbox":{"status":501}}}`
	if a := b.create(t, video); a.status != 501 {
		t.Errorf("body over suffix: %d, want 501", a.status)
	}
	if a := b.create(t, video, "X-Sandbox", `{"status":502}`); a.status != 502 {
		t.Errorf("header over body: %d, want 502", a.status)
	}
	if a := b.create(t, video, "X-Sandbox", `{"retry_after":"9"}`); a.status != 501 || a.header.Get("Retry-After") != "9" {
		t.Errorf("header beside body: %d %v", a.status, a.header)
	}
	b.Sandbox.SetBehaviour(func(r *http.Request, body []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost && strings.Contains(string(body), `"prompt"`) {
			return &sandbox.Behaviour{Status: 503}
		}
		return nil
	})
	if a := b.create(t, video, "X-Sandbox", `{"status":502}`); a.status != 503 {
		t.Errorf("function over all: %d, want 503", a.status)
	}
	b.Sandbox.SetBehaviour(nil)
	if a := b.create(t, video); a.status != 501 {
		t.Errorf("function removed: %d, want 501", a.status)
	}
	if a := b.create(t, `{"model":"sandbox-video:status=202,no_id","prompt":"p"}`); a.status != 202 || a.json(t)["task_id"] != nil || a.json(t)["id"] != nil {
		t.Errorf("accepted without an id: %d %s", a.status, a.body)
	}
}

func TestFaultsOfReads(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for i, want := range []int{429, 200} {
		a := b.do(t, http.MethodGet, "/v1/models", "", "X-Sandbox", `{"status":429,"times":1}`)
		if a.status != want {
			t.Errorf("read %d: %d, want %d", i, a.status, want)
		}
	}
	if a := b.do(t, http.MethodGet, "/v1/models", "", "X-Sandbox", `{"drop":"before_answer"}`); a.err == nil {
		t.Errorf("dropped read: %d, want an error", a.status)
	}
	if a := b.do(t, http.MethodGet, "/v1/models", "", "X-Sandbox", `{`); a.status != 400 {
		t.Errorf("broken header: %d, want 400", a.status)
	}
}

func TestRedirectIsOffered(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a := b.create(t, `{"model":"sandbox-video:status=307","prompt":"p"}`)
	if a.status != 307 || a.header.Get("Location") != "/v1/video/generations" {
		t.Errorf("%d to %q", a.status, a.header.Get("Location"))
	}
}
