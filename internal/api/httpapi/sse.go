package httpapi

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream/sse"
)

// sseWriter is one text/event-stream answer. Events that come together are one write and one
// flush. Its header is written with the first of them, so that an error before
// that is an HTTP status. It pings while nothing else is written, which only
// happens between events: writes and pings exclude each other.
type sseWriter struct {
	x    *exchange
	rc   *http.ResponseController
	ping time.Duration

	mu       sync.Mutex
	buf      []byte // events that are not written yet
	opened   bool
	stopped  bool
	err      error // the first failed write; it stays
	timer    *time.Timer
	last     time.Time // of the last write
	deadline time.Time // of the connection, as far as it was set
}

const (
	// maxGathered is how many bytes of events wait for the one that is said to follow at once.
	maxGathered = 16 << 10
	// maxKeptBuffer bounds the buffer that a stream keeps after a large block.
	maxKeptBuffer = 64 << 10
)

var pingComment = sse.AppendComment(nil, "ping")

func (x *exchange) newSSE() *sseWriter {
	return &sseWriter{x: x, rc: http.NewResponseController(x.ResponseWriter), ping: x.h.cfg.Now().HTTP.SSEPing}
}

// open writes the header before there is an event.
func (s *sseWriter) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write()
}

// keepOpen begins to ping after a while of silence, before there is an event; the
// first ping writes the header.
func (s *sseWriter) keepOpen(after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		s.timer = time.AfterFunc(after, s.tick)
	}
}

// Block writes an event that is nothing but a block. more leaves it to be written with the
// next event, which comes at once: a write for each of many blocks that arrive together is most
// of their cost.
func (s *sseWriter) Block(block []byte, _ uint64, more bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = sse.AppendData(s.buf, block)
	if more && len(s.buf) < maxGathered {
		return s.err
	}
	return s.write()
}

// Flush writes the events that wait for one that does not come at once. Its error stays for
// the next write.
func (s *sseWriter) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf) > 0 {
		_ = s.write()
	}
}

// event writes an event with an id and a name.
func (s *sseWriter) event(id, name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = sse.Append(s.buf, sse.Event{ID: []byte(id), Type: name, Data: data})
	return s.write()
}

// write writes what waits. It needs the lock.
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
	s.arm(now) // for longer than the header's
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

// arm bounds the write. The deadline is moved a few times in its length only: a
// stream of many small blocks would pay for each move.
func (s *sseWriter) arm(now time.Time) {
	limit := s.x.h.core.WriteTimeout
	if s.deadline.Sub(now) > limit {
		return
	}
	s.deadline = now.Add(limit + limit/4)
	// A writer without deadlines (a test's recorder) has no network to wait for.
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

// tick pings when nothing was written for the whole interval, or ever, and sets the timer
// to when that will be so again.
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

// stop ends the pings. opened is true when the answer has begun, or its first events wait to be
// written. It may be called twice.
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

// endChat ends a chat stream: with [DONE] after a whole reply, with one error
// block after a part of one. An error before anything was written is returned.
func (s *sseWriter) endChat(err error) error {
	opened := s.stop()
	switch {
	case err == nil:
		_ = s.Block(doneBlock, 0, false) // a client that went away has all it wanted
	case opened:
		s.x.note(err)
		_ = s.Block(errcode.From(err).Envelope(), 0, false)
	default:
		return err
	}
	return nil
}

// eventError is the name of the event that ends a stream of events early.
const eventError = "genbus.error.v1"

// endedComment is the last of a stream that has lived for as long as it may. To
// its client that is as if the connection broke: it comes back with the last id.
var endedComment = sse.AppendComment(nil, "stream_ended: come back with Last-Event-ID")

// endEvents is endChat for streams of events, which have no [DONE].
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
