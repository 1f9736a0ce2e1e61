package httpapi

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream/sse"
)

// sseWriter writes one text/event-stream answer. Events that arrive together share a write and a
// flush. sseWriter writes the header with the first event or ping, so that an earlier error can
// become an HTTP status. While the stream is idle, it sends pings. A lock prevents a ping from
// splitting an event.
type sseWriter struct {
	x    *exchange
	rc   *http.ResponseController
	ping time.Duration

	mu       sync.Mutex
	buf      []byte // events not yet written
	opened   bool
	stopped  bool
	err      error // of the first failed write; sticky
	timer    *time.Timer
	last     time.Time // time of the last write
	deadline time.Time // deadline set on the connection
}

const (
	// maxGathered bounds the bytes held back to share a write with the next event.
	maxGathered = 16 << 10
	// maxKeptBuffer bounds the buffer that a stream keeps after a large block.
	maxKeptBuffer = 64 << 10
)

var pingComment = sse.AppendComment(nil, "ping")

func (x *exchange) newSSE() *sseWriter {
	return &sseWriter{x: x, rc: http.NewResponseController(x.ResponseWriter), ping: x.h.cfg.Now().HTTP.SSEPing}
}

// open writes the header before any event.
func (s *sseWriter) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write()
}

// keepOpen starts the pings after a period of silence, even if there has been no event. The first
// ping writes the header.
func (s *sseWriter) keepOpen(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.tick)
	}
}

// Block writes an event that consists of a block. If more is set, Block may hold the event back to
// write it with the next one, because most of the cost of many simultaneous blocks is in the
// individual writes.
func (s *sseWriter) Block(block []byte, _ uint64, more bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = sse.AppendData(s.buf, block)
	if more && len(s.buf) < maxGathered {
		return s.err
	}
	return s.write()
}

// Flush writes events that were held back. If that fails, the next write returns the error.
func (s *sseWriter) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) > 0 {
		_ = s.write()
	}
}

func (s *sseWriter) event(id, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = sse.Append(s.buf, sse.Event{ID: []byte(id), Type: name, Data: data})
	return s.write()
}

// write writes the buffer. The caller must hold the lock.
func (s *sseWriter) write() error {
	b := s.buf
	if s.buf = b[:0]; cap(b) > maxKeptBuffer {
		s.buf = nil
	}
	if s.err != nil {
		return s.err
	}
	now := time.Now()
	if !s.opened {
		s.writeHeader()
	}
	s.arm(now) // after the header, which sets a shorter deadline
	s.last = now
	if _, err := s.x.ResponseWriter.Write(b); err != nil {
		s.err = lost(err)
		return s.err
	}
	if err := s.rc.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		s.err = lost(err)
	}
	return s.err
}

// arm sets the write deadline. It moves the deadline only a few times per limit, because moving it
// for each of many small blocks would be costly.
func (s *sseWriter) arm(now time.Time) {
	limit := s.x.h.core.WriteTimeout
	if s.deadline.Sub(now) > limit {
		return
	}
	s.deadline = now.Add(limit + limit/4)
	// Ignore the error: a writer without deadlines, such as a test recorder, has no network
	// connection.
	_ = s.rc.SetWriteDeadline(s.deadline)
}

func lost(err error) error {
	return errcode.New(errcode.CallerGone, "the client stopped reading: %w", err)
}

func (s *sseWriter) writeHeader() {
	h := s.x.Header()
	h["Content-Type"] = []string{"text/event-stream"}
	h["Cache-Control"] = []string{"no-cache"}
	h["X-Accel-Buffering"] = []string{"no"} // for nginx
	s.opened = true
	s.x.WriteHeader(http.StatusOK)
	if s.timer == nil {
		s.timer = time.AfterFunc(s.ping, s.tick)
	}
}

// tick sends a ping if nothing has been written for a whole interval, and sets the timer for the
// next possible ping.
func (s *sseWriter) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || s.err != nil {
		return
	}
	wait := s.ping - time.Since(s.last)
	if wait <= 0 {
		s.buf = append(s.buf, pingComment...)
		if s.write() != nil {
			return
		}
		wait = s.ping
	}
	s.timer.Reset(wait)
}

// stop ends the pings. It reports whether the answer has begun or has buffered events. It may be
// called more than once.
func (s *sseWriter) stop() (opened bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return s.opened || len(s.buf) > 0
}

var doneBlock = []byte("[DONE]")

// endChat ends a chat stream with [DONE] if the reply is complete, or with an error block if it is
// partial. If nothing has been written, endChat returns err instead.
func (s *sseWriter) endChat(err error) error {
	opened := s.stop()
	switch {
	case err == nil:
		_ = s.Block(doneBlock, 0, false) // fails only if the client has left
	case opened:
		s.x.note(err)
		_ = s.Block(errcode.From(err).Envelope(), 0, false)
	default:
		return err
	}
	return nil
}

// eventError is the name of the event that ends a stream after an error.
const eventError = "genbus.error.v1"

// endedComment ends a stream that has reached its maximum lifetime. The client sees the connection
// close and reconnects with the last ID.
var endedComment = sse.AppendComment(nil, "stream_ended: come back with Last-Event-ID")

// endEvents ends a stream of events as endChat does for chats, but without [DONE].
func (s *sseWriter) endEvents(err error) error {
	if opened := s.stop(); err == nil || !opened {
		return err
	}
	if errcode.CodeOf(err) == errcode.StreamEnded {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.buf = append(s.buf, endedComment...)
		_ = s.write()
		return nil
	}
	s.x.note(err)
	_ = s.event("", eventError, errcode.From(err).Envelope())
	return nil
}
