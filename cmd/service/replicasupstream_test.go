package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// handUpstream is an upstream controlled by the test. Each replica reaches it under its own path,
// which identifies the caller.
type handUpstream struct {
	url string

	mu        sync.Mutex
	posts     []handPost
	polls     map[string]int // by caller
	completed bool
	streaming map[string]int // open chat streams, by caller
	cut       map[string]int // chats whose caller disconnected, by caller
	release   chan struct{}  // closed to end chats
}

type handPost struct {
	by, key string
	at      time.Time
}

func newHandUpstream(t *testing.T) *handUpstream {
	t.Helper()
	u := &handUpstream{polls: map[string]int{}, streaming: map[string]int{}, cut: map[string]int{}, release: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{by}/v1/video/generations", func(w http.ResponseWriter, r *http.Request) {
		u.post(r)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"task_id":"up_%s","status":"queued"}`, r.Header.Get("Idempotency-Key"))
	})
	mux.HandleFunc("GET /{by}/v1/video/generations/{id}", func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.polls[r.PathValue("by")]++
		completed := u.completed
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if completed {
			_, _ = fmt.Fprintf(w, `{"task_id":%q,"status":"completed","url":"http://%s/file.mp4"}`, r.PathValue("id"), r.Host)
			return
		}
		_, _ = fmt.Fprintf(w, `{"task_id":%q,"status":"in_progress"}`, r.PathValue("id"))
	})
	mux.HandleFunc("POST /{by}/v1/chat/completions", u.chat)
	s := httptest.NewServer(mux)
	u.url = s.URL
	t.Cleanup(s.Close)
	return u
}

func (u *handUpstream) post(r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.posts = append(u.posts, handPost{r.PathValue("by"), r.Header.Get("Idempotency-Key"), time.Now()})
}

// chat answers with the name of the caller. A stream waits until release is closed or the caller
// disconnects.
func (u *handUpstream) chat(w http.ResponseWriter, r *http.Request) {
	u.post(r)
	by := r.PathValue("by")
	asked, _ := io.ReadAll(r.Body)
	if !strings.Contains(string(asked), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"by %s"},"finish_reason":"stop"}]}`, by)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"by %s"}}]}`+"\n\n", by)
	_ = http.NewResponseController(w).Flush()
	u.mu.Lock()
	u.streaming[by]++
	u.mu.Unlock()
	select {
	case <-u.release:
	case <-r.Context().Done():
		u.mu.Lock()
		u.cut[by]++
		u.mu.Unlock()
		return
	}
	_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

func (u *handUpstream) sent() []handPost {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]handPost(nil), u.posts...)
}

func (u *handUpstream) sentFor(id string) (out []handPost) {
	for _, p := range u.sent() {
		if p.key == id {
			out = append(out, p)
		}
	}
	return out
}

// of reads a counter under the lock.
func (u *handUpstream) of(counter map[string]int, by string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return counter[by]
}

func (u *handUpstream) complete() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.completed = true
}

// more waits until a counter increases.
func (u *handUpstream) more(b *bed, what string, counter map[string]int, by string) {
	b.t.Helper()
	before := u.of(counter, by)
	b.until(what+" by "+by, func(context.Context) error {
		if u.of(counter, by) > before {
			return nil
		}
		return errors.New("none")
	})
}
