package console

import (
	"context"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/upstream/sse"
)

// keepAlive is the interval of pings. The script expects one in 45 s.
const keepAlive = 15 * time.Second

// stream sends a page to a browser whenever the page changes. It ends when the browser disconnects,
// its key becomes invalid, liveTime has passed, or the process drains.
func (c *Console) stream(w http.ResponseWriter, r *http.Request, key string, v viewer, fn render) {
	ctx, release := c.Callers.Watch(r.Context())
	defer release()
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	s, leaveFeed, ok := c.live.join(ctx, key, v, fn)
	if !ok {
		w.Header().Set("Retry-After", "5")
		c.refuse(w, r, http.StatusServiceUnavailable, "Too many pages are open; this one does not update.")
		return
	}
	defer leaveFeed()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // for nginx
	out := sseWriter{w: w, rc: http.NewResponseController(w), timeout: c.WriteTimeout}
	if out.comment("genbus") != nil {
		return
	}
	ping := time.NewTicker(keepAlive)
	defer ping.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.changed:
			if c.isRevoked(v) {
				_ = out.event("login", nil)
				return
			}
			if text, failed := c.live.latest(key); failed {
				err = out.event("trouble", nil)
			} else {
				err = out.event("page", text)
			}
		case <-ping.C:
			err = out.event("ping", nil) // scripts do not see comments
		}
		if err != nil {
			return
		}
	}
}

// isRevoked reports whether a viewer's key has become invalid.
func (c *Console) isRevoked(v viewer) bool {
	_, err := c.Callers.Operator(v.authorization, false)
	return needsLogin(err)
}

// sseWriter writes events to one browser.
type sseWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	buf     []byte
}

func (s *sseWriter) event(name string, data []byte) error {
	s.buf = sse.Append(s.buf[:0], sse.Event{Type: name, Data: data})
	return s.flush()
}

func (s *sseWriter) comment(text string) error {
	s.buf = sse.AppendComment(s.buf[:0], text)
	return s.flush()
}

func (s *sseWriter) flush() error {
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.timeout)) // test recorders do not support deadlines
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	return s.rc.Flush()
}
