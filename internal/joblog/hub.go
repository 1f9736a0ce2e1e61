package joblog

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

// hub hands committed events of all jobs, republished by the broker, to the tails of
// single jobs and to the process's observers. It has one core subscription, whatever the
// number of followers.
type hub struct {
	loses func() bool // for tests: whether a live message is lost; nil: none is

	mu        sync.RWMutex
	names     subject.Space
	listeners map[string]map[*listener]struct{} // by live subject
	observers []func(Notice)
}

// listener takes the events of one job. It does not block.
type listener struct{ take func(*nats.Msg) }

func newHub() *hub { return &hub{listeners: map[string]map[*listener]struct{}{}} }

func (h *hub) start(b *broker.Broker) (*nats.Subscription, error) {
	h.names = b.Names()
	sub, err := b.Conn().Subscribe(h.names.LiveTaskPattern(), h.deliver)
	if err != nil {
		return nil, fmt.Errorf("subscribe to live events: %w", err)
	}
	// The callback never blocks, so a full buffer means that the process is
	// starved; the checks after a silence repair what was dropped.
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
	for x := range h.listeners[m.Subject] {
		x.take(m)
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

func (h *hub) add(subj string, take func(*nats.Msg)) (remove func()) {
	x := &listener{take}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.listeners[subj] == nil {
		h.listeners[subj] = map[*listener]struct{}{}
	}
	h.listeners[subj][x] = struct{}{}
	return func() { h.remove(subj, x) }
}

func (h *hub) remove(subj string, x *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners[subj], x)
	if len(h.listeners[subj]) == 0 {
		delete(h.listeners, subj)
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
