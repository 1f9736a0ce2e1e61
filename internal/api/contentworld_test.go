package api_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/task"
)

// host is a server that has files, or says that it has.
type host struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

func newHost(t *testing.T, handler http.HandlerFunc) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.seen = append(h.seen, r)
		h.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// requests are those that have come.
func (h *host) requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

var film = bytes.Repeat([]byte("genbus! "), 125) // 1000 bytes

const (
	filmTag  = `"film-1"`
	filmTime = "Thu, 01 Jan 2026 00:00:00 GMT"
)

// serveFilm knows ranges, as most upstreams do.
func serveFilm(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("ETag", filmTag)
	at, _ := http.ParseTime(filmTime)
	http.ServeContent(w, r, "", at, bytes.NewReader(film))
}

// upstreamAt makes a host the upstream of all routes, with a key.
func upstreamAt(h *host) func(*config.Config) {
	return func(c *config.Config) {
		u := c.Upstreams["sandbox"]
		u.BaseURL, u.Key, u.Headers = h.URL, config.NewSecret("sk-upstream"), map[string]string{"X-Account": "ours"}
		c.Upstreams["sandbox"] = u
	}
}

func privateResults(c *config.Config) {
	u := c.Upstreams["sandbox"]
	u.PrivateResults = true
	c.Upstreams["sandbox"] = u
}

const videosBody = `{"model":"sandbox-videos","prompt":"a cat"}`

// newVideoObject creates a task of protocol videos, whose results are read by the
// upstream's id where they have no URL.
func (w *world) newVideoObject(headers ...string) string {
	w.t.Helper()
	a := w.post("/v1/videos", videosBody, headers...)
	if a.status != http.StatusOK {
		w.t.Fatalf("create: %d %s", a.status, a.body)
	}
	return a.header.Get("Genbus-Job-Id")
}

// completed is a task that has completed with these results.
func (w *world) completed(videos ...*genbusv1.Video) string {
	w.t.Helper()
	id := w.newVideoObject()
	e := w.startVideo("default", id)
	next, err := task.Completed(videoOf(e), time.Now(), task.Result{Videos: videos, UpstreamStatus: "completed"})
	w.commit(e, next, err)
	return id
}

func contentOf(id string) string { return "/v1/videos/" + id + "/content" }
