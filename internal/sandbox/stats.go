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
	files, filesWithAuthorization                atomic.Int64
}

// Stats are the sandbox's counters since its start.
type Stats struct {
	// Requests counts all HTTP requests.
	Requests int64 `json:"requests"`
	// Creates counts video creates with a complete body, including refused ones.
	Creates int64 `json:"creates"`
	// Chats counts chat requests with a complete body.
	Chats int64 `json:"chats"`
	// Polls counts reads of a video task.
	Polls int64 `json:"polls"`
	// StreamsOpen is the number of open chat streams.
	StreamsOpen int64 `json:"streams_open"`
	// Tasks is the number of video tasks.
	Tasks int `json:"tasks"`
	// Files counts requests to /files/, which need no key.
	Files int64 `json:"files"`
	// FilesWithAuthorization counts requests to /files/ with an Authorization header. It stays 0 if
	// the caller sends its key to no other host.
	FilesWithAuthorization int64 `json:"files_with_authorization"`
	// MaxCreatesPerKey is the largest value of CreatesPerKey.
	MaxCreatesPerKey int `json:"max_creates_per_key"`
	// MaxAcceptsPerKey is the largest number of accepted creates with the same Idempotency-Key,
	// whether or not the answer arrived. A real upstream would have charged for each. It is lower
	// than MaxCreatesPerKey if creates were refused and retried.
	MaxAcceptsPerKey int `json:"max_accepts_per_key"`
	// MaxChatsPerKey is the largest value of ChatsPerKey.
	MaxChatsPerKey int `json:"max_chats_per_key"`
	// CreatesPerProtocol counts Creates by protocol: "primary", "videos", "kling", "jimeng".
	CreatesPerProtocol map[string]int `json:"creates_per_protocol,omitempty"`
	// CreatesPerAuthorization counts Creates by the [Fingerprint] of the bearer key or access key.
	// It omits creates without one.
	CreatesPerAuthorization map[string]int `json:"creates_per_authorization,omitempty"`
	// CreatesPerKey counts Creates by Idempotency-Key.
	CreatesPerKey map[string]int `json:"creates_per_key,omitempty"`
	// ChatsPerKey counts Chats by Idempotency-Key.
	ChatsPerKey map[string]int `json:"chats_per_key,omitempty"`
}

// Stats returns the counters. They are not a consistent snapshot while requests run.
func (s *Sandbox) Stats() Stats {
	stats := s.totals()
	stats.CreatesPerAuthorization = s.accounts.counts()
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
		Files:       s.count.files.Load(),

		FilesWithAuthorization: s.count.filesWithAuthorization.Load(),
		CreatesPerProtocol:     s.protocols.counts(),
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
		refuseNested(w, http.StatusInternalServerError, "internal_error", err.Error())
		return
	}
	writeJSON(w, http.StatusOK, body)
}

type tally struct {
	mu    sync.Mutex
	named map[string]int
	limit int
}

func newTally(limit int) *tally { return &tally{named: map[string]int{}, limit: limit} }

// add increments the count of name. It ignores the empty name, and new names beyond the limit.
func (t *tally) add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.named[name]
	if name != "" && (n > 0 || len(t.named) < t.limit) {
		t.named[name] = n + 1
	}
}

func (t *tally) counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.named)
}

// keyLedger counts requests by Idempotency-Key and remembers the task created with each key.
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

// arrive counts a request and returns false if the ledger cannot hold another key. It does not
// count the empty key.
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

// accept returns the task of key. If key has none yet, or if repeat is set, it stores t with keep
// and returns t. The error comes from keep.
func (l *keyLedger) accept(key string, repeat bool, t *task, keep func(*task) error) (*task, error) {
	if key == "" {
		return t, keep(t)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accepted[key]
	if a.task == nil || repeat {
		if err := keep(t); err != nil {
			return nil, err
		}
		a.task = t
	}
	a.times++
	l.accepted[key] = a
	l.maxAccepted = max(l.maxAccepted, a.times)
	return a.task, nil
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
