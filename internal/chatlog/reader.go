package chatlog

import (
	"sync"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/tasklog"
)

// reader is the bounded buffer of one follower. Everything that fills it returns
// at once.
type reader struct {
	limit  int
	signal chan struct{}

	mu    sync.Mutex
	got   arrivals
	bytes int
	// paused is true while the follower reads the stream to its end and so needs
	// no copies of what it is going to read.
	paused bool
}

// arrivals is what a reader collects between two visits of its follower.
type arrivals struct {
	chunks []*nats.Msg
	events []tasklog.Entry
	err    error // how the events ended
	stale  bool  // the leader has to be read
	full   bool  // the follower did not come in time
}

func newReader(limit int) *reader {
	return &reader{limit: limit, signal: make(chan struct{}, 1)}
}

// push takes a republished chunk.
func (r *reader) push(m *nats.Msg) {
	r.mu.Lock()
	if !r.paused && r.room(m.Size()) {
		r.got.chunks = append(r.got.chunks, m)
	}
	r.mu.Unlock()
	r.ring()
}

// event takes the next event, or the error that ended the events.
func (r *reader) event(e tasklog.Entry, err error) {
	r.mu.Lock()
	if err != nil {
		r.got.err = err
	} else if r.room(proto.Size(e.Job)) {
		r.got.events = append(r.got.events, e)
	}
	r.mu.Unlock()
	r.ring()
}

// room reserves n bytes. A full buffer is emptied: its follower is cut off, and
// must not hold memory until it notices.
func (r *reader) room(n int) bool {
	if r.bytes += n; r.bytes > r.limit {
		r.got = arrivals{err: r.got.err, full: true}
	}
	return !r.got.full
}

func (r *reader) reread() {
	r.mu.Lock()
	r.got.stale = true
	r.mu.Unlock()
	r.ring()
}

func (r *reader) ring() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// pause drops the chunks that wait, and those to come until resume.
func (r *reader) pause() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = true
	for _, m := range r.got.chunks {
		r.bytes -= m.Size()
	}
	r.got.chunks = nil
}

func (r *reader) resume() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = false
}

// take empties the buffer. That it was full stays true.
func (r *reader) take() arrivals {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = arrivals{full: got.full, err: got.err}
	if !got.full {
		r.bytes = 0
	}
	return got
}
