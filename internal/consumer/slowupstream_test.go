package consumer

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// slowUpstream is an upstream whose tasks and streams end when the test decides.
type slowUpstream struct {
	url  string
	done chan struct{} // closing it completes everything

	mu      sync.Mutex
	creates map[string]int  // by Idempotency-Key
	polls   map[string]int  // by task
	ended   map[string]bool // by task
	chats   int
	cut     int // chats whose caller went away
	reads   int
}

func newSlowUpstream(t testing.TB) *slowUpstream {
	u := &slowUpstream{done: make(chan struct{}), creates: map[string]int{}, polls: map[string]int{}, ended: map[string]bool{}}
	u.url = scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, r *http.Request) {
			key := r.Header.Get("Idempotency-Key")
			u.count(func() { u.creates[key]++ })
			respond(`{"task_id":%q,"status":"queued"}`, key)(w, r)
		},
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			id, ended := r.PathValue("id"), false
			u.count(func() { u.polls[id]++; u.reads++; ended = u.ended[id] })
			select {
			case <-u.done:
				ended = true
			default:
			}
			if ended {
				respondCompleted(w, r)
				return
			}
			respond(`{"task_id":%q,"status":"in_progress"}`, id)(w, r)
		},
		"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			u.count(func() { u.chats++ })
			select {
			case <-u.done:
			case <-r.Context().Done():
				u.count(func() { u.cut++ })
				return
			}
			_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		},
	})
	return u
}

func (u *slowUpstream) end(ids ...string) {
	u.count(func() {
		for _, id := range ids {
			u.ended[id] = true
		}
	})
}

func (u *slowUpstream) count(f func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	f()
}

func (u *slowUpstream) number(f func() int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return f()
}

// askedOnce checks that each job was created once, and the number of chat calls.
func (u *slowUpstream) askedOnce(t testing.TB, videos, chats int) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, n := range u.creates {
		if n != 1 {
			t.Errorf("%s was created %d times", key, n)
		}
	}
	if len(u.creates) != videos || u.chats != chats {
		t.Errorf("%d videos were created and %d chats called, want %d and %d", len(u.creates), u.chats, videos, chats)
	}
}

// askedOnceEach checks that each of the jobs was created once.
func (u *slowUpstream) askedOnceEach(t testing.TB, ids []string) {
	t.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, id := range ids {
		if u.creates[id] != 1 {
			t.Errorf("%s was created %d times", id, u.creates[id])
		}
	}
}
