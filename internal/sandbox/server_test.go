package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

func TestModels(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	var ids []any
	v := b.do(t, http.MethodGet, "/v1/models", "").json(t)
	for _, model := range v["data"].([]any) {
		ids = append(ids, at(model, "id"))
	}
	want := []any{
		sandbox.ModelVideo, sandbox.ModelVideoEnveloped, sandbox.ModelChat, sandbox.ModelChatFast,
		sandbox.ModelVideos, sandbox.ModelVideosGateway, sandbox.ModelKling, sandbox.ModelKlingGateway, sandbox.ModelJimeng,
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if v := b.do(t, http.MethodGet, "/v1/models/sandbox-chat", "").json(t); v["id"] != "sandbox-chat" || v["object"] != "model" {
		t.Errorf("one model: %v", v)
	}
	if a := b.do(t, http.MethodGet, "/v1/models/other/name", ""); a.status != 404 || !strings.Contains(string(a.body), "'other/name'") {
		t.Errorf("unknown model: %d %s", a.status, a.body)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{Key: "sk-1"})
	for _, path := range []string{"/v1/models", "/v1/video/generations/x", "/v1/videos/x/content"} {
		a := b.do(t, http.MethodGet, path, "", "Authorization", "Bearer sk-2")
		if a.status != 401 || at(a.json(t), "error", "type") != "new_api_error" || at(a.json(t), "error", "code") != "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := b.create(t, `{}`); a.status != 401 {
		t.Errorf("create without a key: %d", a.status)
	}
	if a := b.do(t, http.MethodGet, "/v1/models", "", "Authorization", "Bearer sk-1"); a.status != 200 {
		t.Errorf("right key: %d", a.status)
	}
	if a := b.do(t, http.MethodGet, "/stats", ""); a.status != 200 {
		t.Errorf("stats without a key: %d", a.status)
	}
	if n := b.Sandbox.Stats().Creates; n != 0 {
		t.Errorf("%d creates counted without a key", n)
	}
}

// TestBodyLimit proves that a body over the limit is refused and not counted. It calls the handler
// directly, because over TCP the client may lose the answer to an aborted upload.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	s := sandbox.New(sandbox.Options{})
	for _, path := range []string{"/v1/chat/completions", "/v1/video/generations"} {
		body := io.MultiReader(strings.NewReader(`{"x":"`), io.LimitReader(zeros{}, 64<<20))
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, body))
		if rec.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d, want 413", path, rec.Code)
		}
	}
	if stats := s.Stats(); stats.Creates != 0 || stats.Chats != 0 {
		t.Errorf("requests were counted that never arrived whole: %+v", stats)
	}
}

type zeros struct{}

var someZeros = bytes.Repeat([]byte{'0'}, 32<<10)

func (zeros) Read(p []byte) (int, error) { return copy(p, someZeros), nil }

func TestStatsUnderConcurrency(t *testing.T) {
	t.Parallel()
	const workers, each = 8, 40
	b := setup(t, sandbox.Options{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				// Two workers send each key.
				key := fmt.Sprintf("key-%d-%d", w/2, i)
				id := idOf(t, b.create(t, `{"model":"sandbox-video","prompt":"p"}`, "Idempotency-Key", key))
				b.poll(t, id)
			}
		})
	}
	wg.Wait()
	var got sandbox.Stats
	if err := json.Unmarshal(b.do(t, http.MethodGet, "/stats", "").body, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.CreatesPerKey) != workers/2*each {
		t.Errorf("%d keys, want %d", len(got.CreatesPerKey), workers/2*each)
	}
	for key, n := range got.CreatesPerKey {
		if n != 2 {
			t.Errorf("%s created %d times, want 2", key, n)
		}
	}
	got.CreatesPerKey = nil
	want := sandbox.Stats{
		Requests: 2*workers*each + 1, Creates: workers * each, Polls: workers * each,
		Tasks: workers / 2 * each, MaxCreatesPerKey: 2, MaxAcceptsPerKey: 2,
		CreatesPerProtocol: map[string]int{"primary": workers * each},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	if a := b.do(t, http.MethodGet, "/stats?keys=0", ""); bytes.Contains(a.body, []byte("per_key\":{")) || a.json(t)["max_creates_per_key"] != 2.0 {
		t.Errorf("stats without keys: %s", a.body)
	}
}

func TestCloseCutsStreams(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL()+"/v1/chat/completions",
		strings.NewReader(`{"model":"sandbox-chat:chunk_interval_ms=60000","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream ended well, want a cut")
	}
	if n := b.Sandbox.Stats().StreamsOpen; n != 0 {
		t.Errorf("%d streams open after Close", n)
	}
}

func TestStartOnATakenAddress(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	addr := strings.TrimPrefix(b.URL(), "http://")
	if _, err := sandbox.Start(addr, sandbox.Options{}); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want an error that names %s", err, addr)
	}
}

func BenchmarkPoll(b *testing.B) {
	s := sandbox.New(sandbox.Options{})
	for _, model := range []string{sandbox.ModelVideo, sandbox.ModelVideoEnveloped} {
		create := &recorder{header: http.Header{}}
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/video/generations",
			strings.NewReader(`{"model":"`+model+`","prompt":"p"}`))
		if err != nil {
			b.Fatal(err)
		}
		s.ServeHTTP(create, req)
		var created struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(create.body.Bytes(), &created); err != nil {
			b.Fatal(err)
		}
		b.Run(model, func(b *testing.B) {
			b.ReportAllocs()
			poll, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/v1/video/generations/"+created.ID, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				s.ServeHTTP(&recorder{header: http.Header{}}, poll)
			}
		})
	}
}

// recorder is a ResponseWriter that is cheap enough not to distort the benchmark.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorder) WriteHeader(int)             {}
