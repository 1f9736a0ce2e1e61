package sandbox

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
)

type counters struct {
	requests, creates, chats, polls, streamsOpen atomic.Int64
}

// Stats are the sandbox's counters since its start.
type Stats struct {
	// Requests counts every HTTP request, whatever became of it.
	Requests int64 `json:"requests"`
	// Creates counts the video creates whose body arrived whole, refused ones
	// included.
	Creates int64 `json:"creates"`
	// Chats counts the chat requests whose body arrived whole.
	Chats int64 `json:"chats"`
	// Polls counts the reads of a video task.
	Polls int64 `json:"polls"`
	// StreamsOpen is the number of chat streams being written now.
	StreamsOpen int64 `json:"streams_open"`
	// Tasks is the number of video tasks.
	Tasks int `json:"tasks"`
	// MaxCreatesPerKey is the largest value of CreatesPerKey.
	MaxCreatesPerKey int `json:"max_creates_per_key"`
	// MaxAcceptsPerKey is the largest number of creates with one Idempotency-Key
	// that were accepted, whether or not the answer arrived: what a real upstream
	// would have charged for. It differs from MaxCreatesPerKey where creates were
	// refused and sent again.
	MaxAcceptsPerKey int `json:"max_accepts_per_key"`
	// MaxChatsPerKey is the largest value of ChatsPerKey.
	MaxChatsPerKey int `json:"max_chats_per_key"`
	// CreatesPerKey counts Creates by Idempotency-Key.
	CreatesPerKey map[string]int `json:"creates_per_key,omitempty"`
	// ChatsPerKey counts Chats by Idempotency-Key.
	ChatsPerKey map[string]int `json:"chats_per_key,omitempty"`
}

// Stats reads the counters. They are not one snapshot while requests run.
func (s *Sandbox) Stats() Stats {
	stats := s.totals()
	stats.CreatesPerKey = s.videoKeys.perKey()
	stats.ChatsPerKey = s.chatKeys.perKey()
	return stats
}

func (s *Sandbox) totals() Stats {
	stats := Stats{
		Requests:    s.count.requests.Load(),
		Creates:     s.count.creates.Load(),
		Chats:       s.count.chats.Load(),
		Polls:       s.count.polls.Load(),
		StreamsOpen: s.count.streamsOpen.Load(),
		Tasks:       s.tasks.len(),
	}
	stats.MaxCreatesPerKey, stats.MaxAcceptsPerKey = s.videoKeys.maxima()
	stats.MaxChatsPerKey, _ = s.chatKeys.maxima()
	return stats
}

func (s *Sandbox) getStats(w http.ResponseWriter, r *http.Request) {
	stats := s.totals()
	if r.URL.Query().Get("keys") != "0" {
		stats = s.Stats()
	}
	body, err := json.Marshal(stats)
	if err != nil {
		writeNested(w, http.StatusInternalServerError, apiError{code: "internal_error", message: err.Error(), kind: kindNewAPI})
		return
	}
	writeJSON(w, http.StatusOK, body)
}

// keyLedger counts requests by Idempotency-Key, and remembers the task that a
// key created.
type keyLedger struct {
	mu          sync.Mutex
	arrived     map[string]int
	accepted    map[string]acceptance
	maxArrived  int
	maxAccepted int
	limit       int
}

type acceptance struct {
	task  *task
	times int
}

func newKeyLedger(limit int) *keyLedger {
	return &keyLedger{arrived: map[string]int{}, accepted: map[string]acceptance{}, limit: limit}
}

// arrive counts a request; false when no more keys can be remembered. The empty
// key is not counted.
func (l *keyLedger) arrive(key string) bool {
	if key == "" {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, known := l.arrived[key]
	if !known && len(l.arrived) >= l.limit {
		return false
	}
	l.arrived[key] = n + 1
	l.maxArrived = max(l.maxArrived, n+1)
	return true
}

// accept gives the task of key, made by create when there is none yet or when
// repeat is set. It is nil when create gives nil.
func (l *keyLedger) accept(key string, repeat bool, create func() *task) *task {
	if key == "" {
		return create()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accepted[key]
	if a.task == nil || repeat {
		if a.task = create(); a.task == nil {
			return nil
		}
	}
	a.times++
	l.accepted[key] = a
	l.maxAccepted = max(l.maxAccepted, a.times)
	return a.task
}

func (l *keyLedger) perKey() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.arrived)
}

func (l *keyLedger) maxima() (arrived, accepted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.maxArrived, l.maxAccepted
}
