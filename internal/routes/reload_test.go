package routes_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// renewal is a table with a chat and a video route over two upstreams. The first upstream is
// overloaded, the second refuses every key.
type renewal struct {
	*routes.Table
	metrics   *telemetry.Metrics
	urls      [2]string
	inFirst   sync.Once
	whenFirst func() // runs during the first call to the first upstream
}

func newRenewal(t *testing.T) *renewal {
	t.Helper()
	w := &renewal{metrics: telemetry.NewMetrics("v1")}
	for i, status := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized} {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if i == 0 && w.whenFirst != nil {
				w.inFirst.Do(w.whenFirst)
			}
			rw.WriteHeader(status)
		}))
		t.Cleanup(server.Close)
		w.urls[i] = server.URL
	}
	var err error
	if w.Table, err = routes.New(w.config(t, "old"), w.metrics, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func (w *renewal) config(t *testing.T, secret string) *config.Config {
	t.Helper()
	cfg := config.Default()
	b := config.NewUpstream(w.urls[1])
	b.Keys = []config.UpstreamKey{{Name: "1", Key: config.NewSecret(secret)}}
	cfg.Upstreams = config.Upstreams{"a": config.NewUpstream(w.urls[0]), "b": b}
	chats := config.NewRoute("c", config.KindChat, "", "c*")
	chats.Upstreams = []config.Target{{Name: "a"}, {Name: "b"}}
	cfg.Routes = []config.Route{chats, route("v", "primary", "b")}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (w *renewal) renew(t *testing.T) {
	t.Helper()
	swap, err := w.Reload(w.config(t, "new"))
	if err != nil {
		t.Error(err)
		return
	}
	swap()
}

// wantOut fails unless n keys of the second upstream are out of use.
func (w *renewal) wantOut(t *testing.T, n string) {
	t.Helper()
	rec := httptest.NewRecorder()
	w.metrics.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if !strings.Contains(rec.Body.String(), "\ngenbus_upstream_keys_out{upstream=\"b\"} "+n+"\n") {
		t.Errorf("not %s keys of b are out", n)
	}
}

// TestChatThatMovesToARenewedKey checks that a chat that falls back to a key whose secret changed
// during its first call uses the old secret, so that the refusal does not take out the new one.
func TestChatThatMovesToARenewedKey(t *testing.T) {
	t.Parallel()
	w := newRenewal(t)
	w.whenFirst = func() { w.renew(t) }
	for _, out := range []string{"0", "1"} {
		r, _ := w.Chat("c")
		_, err := r.Caller.Complete(t.Context(), pool.ChatRequest{Model: "c", Body: body.Parse([]byte(`{"model":"c","messages":[{"role":"user","content":"hi"}]}`))})
		if e := upstream.AsError("chat", err); e == nil || e.HTTPStatus != http.StatusUnauthorized {
			t.Fatalf("got %v", err)
		}
		w.wantOut(t, out)
	}
}

// TestVideoOfARenewedKey checks that a refusal counts against the renewed key only if the call was
// made with the new secret, whichever slot it used.
func TestVideoOfARenewedKey(t *testing.T) {
	t.Parallel()
	w := newRenewal(t)
	old, _ := w.Video("v")
	w.renew(t)
	slot, err := old.Chooser.Acquire(new(pool.Tried))
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	call := func(step *routes.Video) {
		client, _ := step.Client(slot.UpstreamKey())
		s := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"v","prompt":"x"}`))})
		slot.Report(step.Chooser, pool.Job{ID: "video_1"}, s.Err)
	}
	call(old)
	w.wantOut(t, "0")
	next, _ := w.Video("v")
	call(next)
	w.wantOut(t, "1")
}
