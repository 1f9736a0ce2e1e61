package console

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// refreshEvery is the interval at which an open page is rendered, once for all its viewers.
	// After rendering a slow page, the hub waits refreshRest times as long as the rendering took,
	// but at most maxRefresh. An open page thus uses at most 5 % of a core, unless maxRefresh
	// shortens the wait.
	refreshEvery = time.Second
	refreshRest  = 19
	maxRefresh   = 5 * time.Second
	// viewersAtOnce bounds the viewers of all pages of one process.
	viewersAtOnce = 200
	// liveTime bounds a connection that keeps a page up to date. The browser then reconnects and
	// may reach a replica that has been added.
	liveTime = 30 * time.Minute
)

// hub renders each open page once for all its viewers.
type hub struct {
	log *slog.Logger
	may func(viewer) bool // reports whether a viewer may still see pages

	mu      sync.Mutex
	feeds   map[string]*feed // by request URI and rights
	viewers int
}

func newHub(log *slog.Logger, may func(viewer) bool) *hub {
	return &hub{log: log, may: may, feeds: map[string]*feed{}}
}

// feed is a page with at least one viewer.
type feed struct {
	viewers map[*subscription]bool
	latest  []byte // the last successful rendering
	failed  bool   // the latest rendering failed
	stop    context.CancelFunc
}

// subscription is one viewer of a feed.
type subscription struct {
	viewer viewer
	// changed receives a value when the viewer must be updated.
	changed chan struct{}
}

func (s *subscription) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// render renders a page for a viewer. It returns false if the page's data cannot be read.
type render func(ctx context.Context, v viewer) ([]byte, bool)

// join adds a viewer to the feed of a page. ok is false if too many pages are open. The caller must
// call unsubscribe when the viewer disconnects.
func (h *hub) join(ctx context.Context, key string, v viewer, fn render) (s *subscription, unsubscribe func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers >= viewersAtOnce {
		return nil, nil, false
	}
	h.viewers++
	s = &subscription{viewer: v, changed: make(chan struct{}, 1)}
	f := h.feeds[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // the feed may outlive its first viewer
		f = &feed{viewers: map[*subscription]bool{}, stop: stop}
		h.feeds[key] = f
		go h.run(ctx, key, fn)
	}
	if f.viewers[s] = true; f.latest != nil || f.failed {
		s.wake()
	}
	return s, func() { h.unsubscribe(key, s) }, true
}

// unsubscribe removes a viewer. If it was the last one, unsubscribe also removes the feed.
func (h *hub) unsubscribe(key string, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	h.viewers--
	if delete(f.viewers, s); len(f.viewers) == 0 {
		f.stop()
		delete(h.feeds, key)
	}
}

func (h *hub) run(ctx context.Context, key string, fn render) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		begin := time.Now()
		if v, ok := h.anyViewer(ctx, key); ok {
			text, ok := h.render(ctx, v, fn)
			h.publish(ctx, key, text, ok)
		}
		took := time.Since(begin)
		timer.Reset(max(refreshEvery-took, min(refreshRest*took, maxRefresh)))
	}
}

// render calls fn and treats a panic as a failure, because a panic must not crash a process that
// runs jobs.
func (h *hub) render(ctx context.Context, v viewer, fn render) (text []byte, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "panic in console page", telemetry.KeyError, p, "stack", string(debug.Stack()))
			text, ok = nil, false
		}
	}()
	return fn(ctx, v)
}

// anyViewer returns a viewer who may still see the page. The viewer's key is used to read it.
// anyViewer also wakes the viewers who have lost the right to see the page, so that their streams
// end.
func (h *hub) anyViewer(ctx context.Context, key string) (v viewer, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	if f == nil || ctx.Err() != nil {
		return viewer{}, false
	}
	for s := range f.viewers {
		if h.may(s.viewer) {
			v, ok = s.viewer, true
		} else {
			s.wake()
		}
	}
	return v, ok
}

// publish stores a new rendering and wakes the viewers if the page has changed. If the rendering
// failed, they keep the last successful one.
func (h *hub) publish(ctx context.Context, key string, text []byte, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	if f == nil || ctx.Err() != nil || f.failed == !ok && (!ok || bytes.Equal(f.latest, text)) {
		return
	}
	if f.failed = !ok; ok {
		f.latest = text
	}
	for s := range f.viewers {
		s.wake()
	}
}

// latest returns the last successful rendering of a page and reports whether a later one failed.
func (h *hub) latest(key string) (text []byte, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.feeds[key]; f != nil {
		return f.latest, f.failed
	}
	return nil, false
}
