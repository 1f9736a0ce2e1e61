package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Keys set by withOperators.
const (
	opsKey    = "gb_operator-key-0123456789"
	viewerKey = "gb_viewer-key-0123456789"
)

type world struct {
	t    *testing.T
	base string // URL
	stop func() // waits until the service has stopped
	js   jetstream.JetStream
	enc  publisher.Encoder
}

// start runs a service on free ports until the test ends. It is configured like `serve --sandbox`
// plus changes. Without a Chromium it skips the test.
func start(t *testing.T, changes ...func(*config.Config)) *world {
	t.Helper()
	if _, err := chromium(); err != nil {
		t.Skip(err)
	}
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen, cfg.NATS.SyncAlways = t.TempDir(), "127.0.0.1:0", false
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if err := cfg.AddSandbox(startSandbox(t, sandbox.Options{})); err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		change(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	s, err := service.New(t.Context(), cfg, slog.New(slog.DiscardHandler), "dev")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	nc, err := nats.Connect(s.NATSURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, base: "http://" + s.HTTPAddr().String(), stop: stop, js: js, enc: publisher.Encoder{Names: s.Names()}}
}

func startSandbox(t *testing.T, o sandbox.Options) string {
	t.Helper()
	up, err := sandbox.Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	return up.URL()
}

// withOperators configures a key for actions and a read-only key.
func withOperators(c *config.Config) {
	c.OperatorKeys = []config.OperatorKey{
		{Name: "ops", KeyEnv: "OPS", Key: config.NewSecret(opsKey)},
		{Name: "viewer", KeyEnv: "VIEWER", Key: config.NewSecret(viewerKey), ReadOnly: true},
	}
}

func withTenants(names ...string) func(*config.Config) {
	return func(c *config.Config) {
		for _, name := range names {
			c.APIKeys = append(c.APIKeys, config.APIKey{Tenant: name, KeyEnv: "KEY", Key: config.NewSecret(keyOf(name))})
		}
	}
}

func keyOf(tenant string) string { return "gb_" + tenant + "-key-0123456789" }

// call sends an API request and returns the header and body of the response. It fails unless the
// status is 2xx.
func (w *world) call(method, path, key string, body any, headers ...string) (http.Header, []byte) {
	w.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, bytes.NewReader(data))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.StatusCode/100 != 2 {
		w.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	return res.Header, answer
}

type request struct {
	tenant, model, labels, id string
	// behaviour tells the sandbox how to treat the request.
	behaviour map[string]any
}

func (q request) caller() (key string, headers []string) {
	if q.tenant != "" {
		key = keyOf(q.tenant)
	}
	if q.labels != "" {
		headers = append(headers, "Genbus-Labels", q.labels)
	}
	if q.id != "" {
		headers = append(headers, "Idempotency-Key", q.id)
	}
	return key, headers
}

// video submits a video and returns the path of the job's page.
func (w *world) video(q request) string {
	w.t.Helper()
	key, headers := q.caller()
	h, _ := w.call(http.MethodPost, "/v1/video/generations", key, map[string]any{
		"model": q.model, "prompt": "a paper boat on a quiet lake", "metadata": map[string]any{"sandbox": q.behaviour},
	}, headers...)
	return w.page("video", q.tenant, h)
}

// chat submits a queued chat and returns the path of the job's page.
func (w *world) chat(q request) string {
	w.t.Helper()
	key, headers := q.caller()
	h, _ := w.call(http.MethodPost, "/v1/chat/completions", key, map[string]any{
		"model": q.model, "messages": []any{map[string]any{"role": "user", "content": "What does an event bus do?"}}, "sandbox": q.behaviour,
	}, append(headers, "Prefer", "respond-async")...)
	return w.page("chat", q.tenant, h)
}

func (w *world) page(kind, tenant string, h http.Header) string {
	w.t.Helper()
	id := h.Get("Genbus-Job-Id")
	if id == "" {
		w.t.Fatalf("no job in %v", h)
	}
	if tenant == "" {
		tenant = config.DefaultTenant
	}
	return jobPath(kind, tenant, id)
}

func jobPath(kind, tenant, id string) string {
	return fmt.Sprintf("/console/jobs/%s/%s/%s", kind, tenant, id)
}

func idOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// deadLetter stores a dead letter and returns its sequence.
func (w *world) deadLetter(l *genbusv1.DeadLetter) uint64 {
	w.t.Helper()
	data, err := proto.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	ack, err := w.js.Publish(w.t.Context(), w.enc.Names.DeadLetter(subject.Video, "acme", "x"), data)
	if err != nil {
		w.t.Fatal(err)
	}
	return ack.Sequence
}

// events publishes events directly to the log, without running jobs. This allows any number of
// events with any content.
func (w *world) events(all ...task.Event) {
	w.t.Helper()
	for _, e := range all {
		m, err := w.enc.Event(w.t.Context(), e)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.js.PublishMsgAsync(m, jetstream.WithStallWait(patience)); err != nil {
			w.t.Fatal(err)
		}
	}
	select {
	case <-w.js.PublishAsyncComplete():
	case <-time.After(patience):
		w.t.Fatal("the log does not take the events")
	}
}
