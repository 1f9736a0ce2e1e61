package routes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// lister is a table over an upstream with one model, whose answers wait for a send on let.
type lister struct {
	*Table
	calls      atomic.Int32
	asked, let chan struct{}
}

func newLister(t *testing.T) *lister {
	t.Helper()
	l := &lister{asked: make(chan struct{}, 8), let: make(chan struct{}, 8)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.calls.Add(1)
		l.asked <- struct{}{}
		select {
		case <-l.let:
			_, _ = w.Write([]byte(`{"data":[{"id":"listed"}]}`))
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	cfg := config.Default()
	cfg.Upstreams = config.Upstreams{"u": config.NewUpstream(server.URL)}
	cfg.Routes = []config.Route{config.NewRoute("r", config.KindVideo, "u", "*")}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.Table, err = New(cfg, telemetry.NewMetrics("v1"), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func (l *lister) count(ctx context.Context) <-chan int {
	out := make(chan int, 1)
	go func() { out <- len(l.Models(ctx, "")) }()
	return out
}

func expect(t *testing.T, told <-chan int, want int) {
	t.Helper()
	select {
	case n := <-told:
		if n != want {
			t.Errorf("told of %d models, want %d", n, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
}

// TestADisconnectedCallerSpoilsNoList checks that a cancelled caller does not end the call that
// fills the shared cache.
func TestADisconnectedCallerSpoilsNoList(t *testing.T) {
	t.Parallel()
	l := newLister(t)
	l.let <- struct{}{}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, l.count(gone), 1)
	expect(t, l.count(t.Context()), 1)
	if n := l.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestOneCallerAsks checks that concurrent callers share one call, waiting for the first list and
// getting the cached one while it is refreshed.
func TestOneCallerAsks(t *testing.T) {
	t.Parallel()
	l := newLister(t)
	first := l.count(t.Context())
	<-l.asked
	second := l.count(t.Context())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	expect(t, l.count(gone), 0)
	l.let <- struct{}{}
	expect(t, first, 1)
	expect(t, second, 1)

	l.models.mu.Lock()
	l.models.at = time.Now().Add(-modelsFor)
	l.models.mu.Unlock()
	first = l.count(t.Context())
	<-l.asked
	expect(t, l.count(t.Context()), 1)
	l.let <- struct{}{}
	expect(t, first, 1)
	if n := l.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// TestListOfBeforeAReload checks that a list requested before a reload is not cached.
func TestListOfBeforeAReload(t *testing.T) {
	t.Parallel()
	l := newLister(t)
	first := l.count(t.Context())
	<-l.asked
	swap, err := l.Reload(l.now.Load().cfg)
	if err != nil {
		t.Fatal(err)
	}
	swap()
	l.let <- struct{}{}
	expect(t, first, 1)
	l.let <- struct{}{}
	expect(t, l.count(t.Context()), 1)
	if n := l.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}
