package content_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...) }

const testKey = "sk-test-0123456789"

// video is a file in which each byte depends on its offset.
var video = func() []byte {
	out := make([]byte, 100_000)
	for i := range out {
		out[i] = byte(i*7 + i>>8)
	}
	copy(out, "\x00\x00\x00\x20ftypisom")
	return out
}()

var videoTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

type world struct {
	t            testing.TB
	own, foreign *host
	endpoint     *upstream.Endpoint
	reader       *content.Reader
}

// host is an HTTP server that records its requests.
type host struct {
	*httptest.Server
	mux  *http.ServeMux
	mu   sync.Mutex
	seen []*http.Request
}

func newHost(t testing.TB) *host {
	h := &host{mux: http.NewServeMux()}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.seen = append(h.seen, r)
	h.mu.Unlock()
	h.mux.ServeHTTP(w, r)
}

func (h *host) requests() []*http.Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.seen
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, own: newHost(t), foreign: newHost(t)}
	transport := upstream.NewTransport(upstream.TransportOptions{})
	t.Cleanup(transport.CloseIdleConnections)
	w.endpoint = &upstream.Endpoint{
		Name: "sora", BaseURL: w.own.URL + "/base/v1", Key: testKey, Header: http.Header{"X-Configured": {"yes"}}, Transport: transport,
	}
	w.use(content.Options{})
	return w
}

func (w *world) use(o content.Options) {
	w.reader = content.NewReader(o)
	w.t.Cleanup(w.reader.Close)
}

// at returns a place that allows private addresses, because test servers listen on those.
func (w *world) at(url string) content.Place {
	return content.Place{Endpoint: w.endpoint, URL: url, PrivateOK: true}
}

func serveVideo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "video/mp4")
	w.Header().Set("ETag", `"v1"`)
	http.ServeContent(w, r, "", videoTime, bytes.NewReader(video))
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if contentType == "" {
			w.Header()["Content-Type"] = nil
		} else {
			w.Header().Set("Content-Type", contentType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func (w *world) open(p content.Place, q content.Request) (*content.File, []byte, error) {
	w.t.Helper()
	f, err := w.reader.Open(w.t.Context(), p, q)
	if err != nil {
		if f != nil {
			w.t.Error("a file came with an error")
		}
		return nil, nil, err
	}
	data, err := io.ReadAll(f.Body)
	return f, data, errors.Join(err, f.Body.Close())
}

func (w *world) wantVideo(p content.Place) {
	w.t.Helper()
	f, data, err := w.open(p, content.Request{})
	if err != nil || !bytes.Equal(data, video) {
		w.t.Fatalf("read %d bytes, %v", len(data), err)
	}
	if f.Status != http.StatusOK || f.Type != "video/mp4" || f.Range != "" {
		w.t.Errorf("got %+v", f)
	}
}

// wantError fails unless Open fails with code and these texts, and reveals no secret.
func (w *world) wantError(p content.Place, code errcode.Code, texts ...string) {
	w.t.Helper()
	_ = w.failure(p, code, texts...)
}

// failure is wantError, but returns the error.
func (w *world) failure(p content.Place, code errcode.Code, texts ...string) *errcode.Error {
	w.t.Helper()
	_, _, err := w.open(p, content.Request{})
	e, ok := errors.AsType[*errcode.Error](err)
	if !ok || e.Code != code {
		w.t.Fatalf("got %v, want %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(e.Message, text) {
			w.t.Errorf("%q does not say %q", e.Message, text)
		}
	}
	for _, secret := range []string{testKey, "hunter2", "X-Signature"} {
		if strings.Contains(e.Message, secret) || strings.Contains(e.UpstreamCode, secret) || e.Err != nil && strings.Contains(e.Err.Error(), secret) {
			w.t.Errorf("%q gives away %q", e.Message, secret)
		}
	}
	return e
}

// signed is the query of a URL that must not appear in an error.
const signed = "?X-Signature=hunter2hunter2&e=1"

func TestPathIsReadWithTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.HandleFunc("GET /base/v1/videos/a%2Fb/content", serveVideo)
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/videos/a%2Fb/content"})
	r := w.own.requests()[0]
	if r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get("X-Configured") != "yes" {
		t.Errorf("the upstream was called with %v", r.Header)
	}
	if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Range") != "" || r.Method != http.MethodGet {
		t.Errorf("%s with %v", r.Method, r.Header)
	}
}

func TestURLOnTheOwnOriginIsReadWithTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.HandleFunc("GET /elsewhere/file", serveVideo)
	p := w.at(strings.Replace(w.own.URL, "http://", "HTTP://", 1) + "/elsewhere/file?a=b%20c")
	p.PrivateOK = false
	p.Path = "/v1/videos/x/content" // ignored next to a URL
	w.wantVideo(p)
	if r := w.own.requests()[0]; r.Header.Get("Authorization") != "Bearer "+testKey || r.URL.RawQuery != "a=b%20c" {
		t.Errorf("%s with %v", r.URL, r.Header)
	}
}

func TestForeignURLIsReadWithoutKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.foreign.mux.HandleFunc("GET /file", serveVideo)
	w.wantVideo(w.at(w.foreign.URL + "/file" + signed))
	p := w.at(w.foreign.URL + "/file")
	p.Endpoint = nil
	w.wantVideo(p)
	for _, r := range w.foreign.requests() {
		wantNoSecrets(t, r)
	}
}

// wantNoSecrets fails if a foreign host got more than harmless headers.
func wantNoSecrets(t testing.TB, r *http.Request) {
	t.Helper()
	for name := range r.Header {
		switch name {
		case "User-Agent", "Accept", "Accept-Encoding", "Range", "If-Range":
		default:
			t.Errorf("%s was called with %s", r.URL.Path, name)
		}
	}
}

func TestNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantError(content.Place{Endpoint: w.endpoint}, errcode.ContentUnavailable)
	w.wantError(content.Place{Path: "/v1/videos/x/content"}, errcode.ContentUnavailable)
	for _, url := range []string{"file:///etc/passwd", "ftp://host/file", "//host/file", "no URL", "http://", "http://a b/", "javascript:alert(1)", "http:/file"} {
		w.wantError(w.at(url), errcode.ContentBlocked, "neither an http nor an https URL")
	}
}

// TestHeadReadsNothing checks that HeadOnly sends a GET to the upstream and closes the answer
// unread.
func TestHeadReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := make(chan struct{})
	w.own.mux.HandleFunc("GET /base/v1/content", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "video/mp4")
		rw.Header().Set("Content-Length", "2000000000")
		_, _ = rw.Write(video)
		_ = http.NewResponseController(rw).Flush()
		<-r.Context().Done()
		close(gone)
	})
	f, data, err := w.open(content.Place{Endpoint: w.endpoint, Path: "/v1/content"}, content.Request{HeadOnly: true, Range: "bytes=0-9"})
	if err != nil || len(data) != 0 || f.Status != http.StatusOK || f.Length != 2_000_000_000 || f.Type != "video/mp4" {
		t.Errorf("got %+v, %d bytes, %v", f, len(data), err)
	}
	<-gone
	if got := w.own.requests()[0].Header.Get("Range"); got != "" {
		t.Errorf("HEAD asked for the range %s", got)
	}
}
