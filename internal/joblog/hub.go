package joblog

import (
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// Summary describes a committed event without its job.
type Summary struct {
	Name   subject.JobName
	Status string
	Writer string
	// StartBy is the deadline for starting the job. It is zero if the job was started or has no
	// such deadline.
	StartBy time.Time
	// EndBy is the deadline for ending a started job. It is zero if the job was not started or has
	// ended.
	EndBy time.Time
	// The fields below are set only in summaries from Headers and OnCommit.
	CreatedAt    time.Time // of the job
	Time         time.Time // of the event
	Facts        publisher.Facts
	Version, Seq uint64 // of the event
}

func summary(n subject.JobName, h nats.Header) Summary {
	out := Summary{Name: n, Status: header(h, subject.HeaderStatus), Writer: header(h, subject.HeaderWriter)}
	if by := header(h, subject.HeaderStartBy); by != "" {
		out.StartBy, _ = time.Parse(time.RFC3339Nano, by) // written by genbus, so it parses
	}
	if by := header(h, subject.HeaderEndBy); by != "" {
		out.EndBy, _ = time.Parse(time.RFC3339Nano, by)
	}
	return out
}

func storedSummary(n subject.JobName, h nats.Header, seq uint64) Summary {
	out := summary(n, h)
	out.Seq = seq
	out.CreatedAt, _ = time.Parse(time.RFC3339Nano, header(h, subject.HeaderCreatedAt))
	out.Time, _ = time.Parse(time.RFC3339Nano, header(h, subject.HeaderCETime))
	out.Facts = publisher.ParseFacts(header(h, subject.HeaderIndex))
	out.Version, _ = strconv.ParseUint(header(h, subject.HeaderVersion), 10, 64)
	return out
}

// hub distributes this process's commits, and peer notifications about its jobs, within the
// process.
type hub struct {
	loses func() bool // set by tests to drop core NATS messages

	mu        sync.RWMutex
	observers []func(Summary)
	committed func(Summary) // nil if none is registered
}

func (h *hub) commit(s Summary) {
	h.mu.RLock()
	f := h.committed
	h.mu.RUnlock()
	if f != nil {
		f(s)
	}
}

// notifyObservers calls all functions registered with OnPeerNotification.
func (h *hub) notifyObservers(s Summary) {
	h.mu.RLock()
	observers := h.observers
	h.mu.RUnlock()
	for _, f := range observers {
		f(s)
	}
}

// drops reports whether a test wants a message to be lost.
func (h *hub) drops() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.loses != nil && h.loses()
}
