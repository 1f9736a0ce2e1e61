package apitest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/task"
)

// Host serves result files and records its requests.
type Host struct {
	*httptest.Server
	mu   sync.Mutex
	seen []*http.Request
}

// NewHost starts a Host that answers with handler.
func NewHost(t *testing.T, handler http.HandlerFunc) *Host {
	t.Helper()
	h := &Host{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.seen = append(h.seen, r)
		h.mu.Unlock()
		handler(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// Requests returns the requests received so far.
func (h *Host) Requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

// Film is the content of a result.
var Film = bytes.Repeat([]byte("genbus! "), 125) // 1000 bytes

// Validators of Film.
const (
	FilmTag  = `"film-1"`
	FilmTime = "Thu, 01 Jan 2026 00:00:00 GMT"
)

// ServeFilm serves Film with range support, like most upstreams.
func ServeFilm(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", FilmTag)
	ServeRanges(w, r, Film)
}

// ServeRanges serves any film with range support.
func ServeRanges(w http.ResponseWriter, r *http.Request, film []byte) {
	w.Header().Set("Content-Type", "video/mp4")
	at, _ := http.ParseTime(FilmTime)
	http.ServeContent(w, r, "", at, bytes.NewReader(film))
}

// UpstreamAt returns a configuration change that makes a host the upstream of all routes and sets
// an upstream key for it.
func UpstreamAt(h *Host) func(*config.Config) {
	return func(c *config.Config) {
		u := c.Upstreams["sandbox"]
		u.BaseURL, u.Key, u.Headers = h.URL, config.NewSecret("sk-upstream"), map[string]string{"X-Account": "ours"}
		c.Upstreams["sandbox"] = u
	}
}

// VideosBody is a request body for POST /v1/videos.
const VideosBody = `{"model":"sandbox-videos","prompt":"a cat"}`

// NewVideoObject creates a task of the protocol videos and returns its ID. In this protocol,
// results without a URL are fetched by the upstream's task ID.
func (w *World) NewVideoObject(headers ...string) string {
	w.T.Helper()
	a := w.Post("/v1/videos", VideosBody, headers...)
	if a.Status != http.StatusOK {
		w.T.Fatalf("create: %d %s", a.Status, a.Body)
	}
	return a.Header.Get("Genbus-Job-Id")
}

// Completed creates a task, completes it with the given results and returns its ID.
func (w *World) Completed(videos ...*genbusv1.Video) string {
	w.T.Helper()
	id := w.NewVideoObject()
	e := w.StartVideo("default", id)
	next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{Videos: videos, UpstreamStatus: "completed"})
	w.Commit(e, next, err)
	return id
}

// ContentOf returns the path of a task's content.
func ContentOf(id string) string { return "/v1/videos/" + id + "/content" }

// ReadPieces reads a whole download.
func ReadPieces(stream grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]) (data []byte, err error) {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
		data = append(data, piece.GetData()...)
	}
}
