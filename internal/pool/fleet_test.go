package pool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// fleet is a set of upstreams behind one chat route.
type fleet struct {
	chat      *pool.Chat
	pool      *pool.Pool
	chooser   *pool.Chooser
	metrics   *telemetry.Metrics
	ups       config.Upstreams
	transport *transport // of all keys
	log       bytes.Buffer

	mu    sync.Mutex
	calls []call
}

// transport lets a test replace the transport of existing clients.
type transport struct{ http.RoundTripper }

// call is a request that an upstream received.
type call struct {
	key, model, jobID string
	streamOptions     string // JSON
}

// byKey maps key names, such as "a" or "a/1", to their answers.
type byKey map[string]http.HandlerFunc

// newFleet starts a server for each key. The route orders them by name. change may change the
// route, and limit the upstreams.
func newFleet(t *testing.T, answers byKey, limit func(*config.Upstream), change func(*config.Route)) *fleet {
	t.Helper()
	connections := upstream.NewTransport(upstream.TransportOptions{})
	t.Cleanup(connections.CloseIdleConnections)
	f := &fleet{metrics: telemetry.NewMetrics("v1"), transport: &transport{connections}}
	clients := map[pool.UpstreamKey]*chat.Client{}
	keys := map[string][]string{}
	var names []string
	for key, answer := range answers {
		a := keyOf(key)
		clients[a] = f.serve(t, a, answer)
		if !slices.Contains(names, a.Upstream) {
			names = append(names, a.Upstream)
		}
		if a.Key != "" {
			keys[a.Upstream] = append(keys[a.Upstream], a.Key)
		}
	}
	slices.Sort(names)
	ups := config.Upstreams{}
	for _, name := range names {
		slices.Sort(keys[name])
		ups[name] = with(limit, keys[name]...)
	}
	r := along(names...)
	if change != nil {
		change(&r)
	}
	f.ups = ups
	f.pool = pool.New(ups, pool.Options{Metrics: f.metrics, Logger: slog.New(slog.NewTextHandler(&f.log, nil))})
	f.chooser = f.pool.Chooser(r)
	f.chat = pool.NewChat(f.chooser, func(a pool.UpstreamKey) *chat.Client { return clients[a] })
	return f
}

func keyOf(s string) pool.UpstreamKey {
	name, key, _ := strings.Cut(s, "/")
	return pool.UpstreamKey{Upstream: name, Key: key}
}

// serve starts the server of one key. Without an answer, nothing listens.
func (f *fleet) serve(t *testing.T, a pool.UpstreamKey, answer http.HandlerFunc) *chat.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Model         string
			StreamOptions json.RawMessage `json:"stream_options"`
		}
		raw, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(raw, &request)
		f.mu.Lock()
		f.calls = append(f.calls, call{a.String(), request.Model, r.Header.Get("Idempotency-Key"), string(request.StreamOptions)})
		f.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(raw))
		answer(w, r)
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	if answer == nil {
		server.Close()
	}
	return chat.New(&upstream.Endpoint{Name: a.Upstream, BaseURL: server.URL, Transport: f.transport}, chat.Options{})
}

func (f *fleet) called() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.calls {
		names = append(names, c.key)
	}
	return names
}

func request(queued bool) pool.ChatRequest {
	return pool.ChatRequest{
		Job: pool.Job{ID: "chat_1", Tenant: "acme"}, Model: "m", Body: body.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)), Queued: queued,
	}
}

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refuse responds with an error in the usual format.
func refuse(status int, code string) http.HandlerFunc {
	return answer(status, fmt.Sprintf(`{"error":{"message":"no","type":"t","code":%q}}`, code))
}

// after adds Retry-After to an answer.
func after(seconds string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", seconds)
		next(w, r)
	}
}

const reply = `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`

var replies = answer(200, reply)

func events(blocks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, b := range blocks {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

const (
	firstBlock = `{"id":"1","choices":[{"index":0,"delta":{"content":"o"}}]}`
	lastBlock  = `{"id":"1","choices":[{"index":0,"delta":{"content":"k"},"finish_reason":"stop"}]}`
)

var streams = events(firstBlock, lastBlock, "[DONE]")

// cut drops the connection after reading the request.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// hang does not answer until the caller leaves.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
