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
	// refreshEvery is how often an open page is rendered again, once for all who look at it. One
	// that takes long is rendered less often, so that the time between is refreshRest times what
	// it takes, up to refreshMost: an open page costs a core 5 % at most, unless it takes longer
	// than that because it waits.
	refreshEvery = time.Second
	refreshRest  = 19
	refreshMost  = 5 * time.Second
	// viewersAtOnce bounds the open pages of one process.
	viewersAtOnce = 200
	// liveTime is how long one page is kept up to date by one connection; a browser then comes
	// back by itself. It moves to another replica where one was added.
	liveTime = 30 * time.Minute
)

// hub renders each open page once a second, however many look at it.
type hub struct {
	log *slog.Logger
	may func(viewer) bool // whether a viewer may still see pages

	mu      sync.Mutex
	feeds   map[string]*feed // by what is shown
	viewers int
}

func newHub(log *slog.Logger, may func(viewer) bool) *hub {
	return &hub{log: log, may: may, feeds: map[string]*feed{}}
}

// feed is one page that is open somewhere.
type feed struct {
	viewers map[*subscription]bool
	latest  []byte // as it was rendered last
	failed  bool   // whether it could not be read since
	stop    context.CancelFunc
}

// subscription is one viewer of a feed.
type subscription struct {
	viewer viewer
	// changed has a token when there is something that the viewer has not got.
	changed chan struct{}
}

// wake says that something has changed.
func (s *subscription) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// render gives a page as it is now, for a viewer; false where it cannot be read.
type render func(ctx context.Context, v viewer) ([]byte, bool)

// join adds a viewer to the feed of a page; false where there are too many. leave must be called
// when it is over.
func (h *hub) join(ctx context.Context, key string, v viewer, fn render) (s *subscription, leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.viewers >= viewersAtOnce {
		return nil, nil, false
	}
	h.viewers++
	s = &subscription{viewer: v, changed: make(chan struct{}, 1)}
	f := h.feeds[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx)) // it outlives its first viewer
		f = &feed{viewers: map[*subscription]bool{}, stop: stop}
		h.feeds[key] = f
		go h.run(ctx, key, fn)
	}
	if f.viewers[s] = true; f.latest != nil || f.failed {
		s.wake()
	}
	return s, func() { h.leave(key, s) }, true
}

// leave removes a viewer, and the feed with its last one.
func (h *hub) leave(key string, s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	h.viewers--
	if delete(f.viewers, s); len(f.viewers) == 0 {
		f.stop()
		delete(h.feeds, key)
	}
}

// run renders a page until ctx ends.
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
		timer.Reset(max(refreshEvery-took, min(refreshRest*took, refreshMost)))
	}
}

// render is fn; a panic in it is a page that cannot be read, and must not end the process, which
// has jobs.
func (h *hub) render(ctx context.Context, v viewer, fn render) (text []byte, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "panic in console page", telemetry.KeyError, p, "stack", string(debug.Stack()))
			text, ok = nil, false
		}
	}()
	return fn(ctx, v)
}

// anyViewer is one who may see the page, and whose key it is read with. Those who may not any
// more are woken, so that they are told.
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

// publish tells the viewers of a page what it is now, where it has changed. While it cannot be
// read they keep what they have.
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

// latest is a page as it was rendered last, and whether it could not be read since.
func (h *hub) latest(key string) (text []byte, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.feeds[key]; f != nil {
		return f.latest, f.failed
	}
	return nil, false
}
