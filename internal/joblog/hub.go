package joblog

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// Notice is the news that some replica committed an event.
type Notice struct {
	Name   subject.JobName
	Status string
	Writer string
	// StartBy is when the job fails unless it was started; zero for one that was, or
	// that has no such limit.
	StartBy time.Time
	// EndBy is when a job that was started fails unless it ends; zero for one that was
	// not, or has ended.
	EndBy time.Time
	// What follows is known of a stored event only: by Headers and OnCommit.
	CreatedAt    time.Time // of the job
	Time         time.Time // of the event
	Facts        publisher.Facts
	Version, Seq uint64 // of the event
}

// notice is what the headers of an event say.
func notice(n subject.JobName, h nats.Header) Notice {
	out := Notice{Name: n, Status: header(h, subject.HeaderStatus), Writer: header(h, subject.HeaderWriter)}
	if by := header(h, subject.HeaderStartBy); by != "" {
		out.StartBy, _ = time.Parse(time.RFC3339Nano, by) // ours: it can be read
	}
	if by := header(h, subject.HeaderEndBy); by != "" {
		out.EndBy, _ = time.Parse(time.RFC3339Nano, by)
	}
	return out
}

// storedNotice is what the headers of a stored event say.
func storedNotice(n subject.JobName, h nats.Header, seq uint64) Notice {
	out := notice(n, h)
	out.Seq = seq
	out.CreatedAt, _ = time.Parse(time.RFC3339Nano, header(h, subject.HeaderCreatedAt))
	out.Time, _ = time.Parse(time.RFC3339Nano, header(h, subject.HeaderCETime))
	out.Facts = publisher.ParseFacts(header(h, subject.HeaderIndex))
	out.Version, _ = strconv.ParseUint(header(h, subject.HeaderVersion), 10, 64)
	return out
}

// hub hands news to this process: of its own commits, and of what others have written into
// its jobs.
type hub struct {
	loses func() bool // for tests: whether a message of core NATS is lost; nil: none is

	mu        sync.RWMutex
	concerned []func(Notice)
	committed func(Notice) // nil: nothing hears of commits
}

// commit tells of a commit of this process.
func (h *hub) commit(n Notice) {
	h.mu.RLock()
	f := h.committed
	h.mu.RUnlock()
	if f != nil {
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
