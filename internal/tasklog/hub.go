package tasklog

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
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

// hub hands committed events of all jobs, republished by the broker, to the
// followers of single jobs and to the process's observers. It has one core
// subscription, whatever the number of followers.
type hub struct {
	limit int
	loses func() bool // for tests: whether a live message is lost; nil: none is

	mu        sync.RWMutex
	names     subject.Space
	readers   map[string]map[*reader]struct{} // by live subject
	observers []func(Notice)
}

func newHub(limit int) *hub {
	return &hub{limit: limit, readers: map[string]map[*reader]struct{}{}}
}

func (h *hub) start(b *broker.Broker) (*nats.Subscription, error) {
	h.names = b.Names()
	sub, err := b.Conn().Subscribe(h.names.LiveTaskPattern(), h.deliver)
	if err != nil {
		return nil, fmt.Errorf("subscribe to live events: %w", err)
	}
	// The callback never blocks, so a full buffer means that the process is
	// starved; the followers' own reads repair what was dropped.
	if err := sub.SetPendingLimits(1<<20, 256<<20); err != nil {
		return nil, fmt.Errorf("subscribe to live events: %w", err)
	}
	return sub, b.Conn().Flush()
}

func (h *hub) deliver(m *nats.Msg) {
	h.mu.RLock()
	if h.loses != nil && h.loses() {
		h.mu.RUnlock()
		return
	}
	for r := range h.readers[m.Subject] {
		r.push(m)
	}
	h.mu.RUnlock()
	if name, err := h.names.ParseLiveTask(m.Subject); err == nil {
		h.tell(notice(name, m.Header))
	}
}

// tell hands a notice to the observers.
func (h *hub) tell(n Notice) {
	h.mu.RLock()
	observers := h.observers
	h.mu.RUnlock()
	for _, observe := range observers {
		observe(n)
	}
}

func (h *hub) add(subj string) *reader {
	r := &reader{limit: h.limit, signal: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers[subj] == nil {
		h.readers[subj] = map[*reader]struct{}{}
	}
	h.readers[subj][r] = struct{}{}
	return r
}

func (h *hub) remove(subj string, r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers[subj], r)
	if len(h.readers[subj]) == 0 {
		delete(h.readers, subj)
	}
}

// wake makes every follower read the leader again: what was published while the
// connection was away is gone.
func (h *hub) wake() {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, readers := range h.readers {
		for r := range readers {
			r.reread()
		}
	}
}

// Observe registers a function that hears of every commit of every replica and,
// where it is registered before Start, of the last event of every job that the log
// has. It must not block. A notice may come twice: at once by live delivery, and by
// an ordered consumer, which catches up with what live delivery lost; the second may
// then be older than what was heard last.
func (l *Log) Observe(f func(Notice)) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	l.hub.observers = append(slices.Clone(l.hub.observers), f)
}

// reader is the bounded buffer of one follower.
type reader struct {
	limit  int
	signal chan struct{}

	mu    sync.Mutex
	queue []*nats.Msg
	bytes int
	stale bool // the leader has to be read
	full  bool
}

func (r *reader) push(m *nats.Msg) {
	r.mu.Lock()
	if r.bytes += m.Size(); r.bytes > r.limit {
		r.full, r.queue = true, nil
	} else {
		r.queue = append(r.queue, m)
	}
	r.mu.Unlock()
	r.ring()
}

func (r *reader) reread() {
	r.mu.Lock()
	r.stale = true
	r.mu.Unlock()
	r.ring()
}

func (r *reader) ring() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// take empties the buffer. full means that messages were dropped because the
// follower did not come for them.
func (r *reader) take() (queue []*nats.Msg, stale, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queue, stale, full = r.queue, r.stale, r.full
	r.queue, r.bytes, r.stale = nil, 0, false
	return queue, stale, full
}
