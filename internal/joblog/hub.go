package joblog

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

// Notice is the news that some replica committed an event.
type Notice struct {
	Name   subject.TaskName
	Status string
	Writer string
	// StartBy is when the job fails unless it was started; zero for one that was, or
	// that has no such limit.
	StartBy time.Time
	// EndBy is when a job that was started fails unless it ends; zero for one that was
	// not, or has ended.
	EndBy time.Time
}

// notice is what the headers of an event say.
func notice(n subject.TaskName, h nats.Header) Notice {
	out := Notice{Name: n, Status: header(h, subject.HeaderStatus), Writer: header(h, subject.HeaderWriter)}
	if by := header(h, subject.HeaderStartBy); by != "" {
		out.StartBy, _ = time.Parse(time.RFC3339Nano, by) // ours: it can be read
	}
	if by := header(h, subject.HeaderEndBy); by != "" {
		out.EndBy, _ = time.Parse(time.RFC3339Nano, by)
	}
	return out
}

// hub hands news to this process: of each event to the observers, and of what others have
// written into its jobs to those that are concerned.
type hub struct {
	loses func() bool // for tests: whether a message of core NATS is lost; nil: none is

	mu        sync.RWMutex
	observers []func(Notice)
	concerned []func(Notice)
}

// observe tells the observers.
func (h *hub) observe(n Notice) {
	h.mu.RLock()
	observers := h.observers
	h.mu.RUnlock()
	for _, f := range observers {
		f(n)
	}
}

// concern tells those that are concerned.
func (h *hub) concern(n Notice) {
	h.mu.RLock()
	concerned := h.concerned
	h.mu.RUnlock()
	for _, f := range concerned {
		f(n)
	}
}

// drops reports whether a test wants a message to be lost.
func (h *hub) drops() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.loses != nil && h.loses()
}
