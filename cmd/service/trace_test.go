package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry/collectortest"
)

// startNATS starts a server that outlives the services of a test.
func startNATS(t *testing.T) string {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(), MaxPayload: 8 << 20,
		JetStreamMaxStore: 100 << 30, JetStreamMaxMemory: 1 << 30,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(brokertest.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	return s.ClientURL()
}

// startReplica starts a service on a shared server. stop stops it cleanly.
func startReplica(t *testing.T, natsURL, upstream string) (w *world, stop func()) {
	t.Helper()
	cfg := config.Default()
	cfg.NATS.URL, cfg.NATS.Replicas = natsURL, 1
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	cfg.Telemetry.Traces = "on"
	if err := cfg.AddSandbox(upstream); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		if cfg.Routes[i].Kind == config.KindVideo {
			cfg.Routes[i].Poll.Interval = 100 * time.Millisecond
		}
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s, err := service.New(ctx, cfg, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), "test")
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	w = &world{Service: s, base: "http://" + s.HTTPAddr().String()}
	w.connectTo(t, natsURL)
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		w.close(t)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return w, stop
}

// caller is the trace context of one request.
type caller struct {
	trace, span string
}

func newCaller(n int) caller {
	return caller{trace: fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e%04d", n), span: fmt.Sprintf("00f067aa0ba9%04d", n)}
}

func (c caller) parent() string { return "00-" + c.trace + "-" + c.span + "-01" }

// entrance is an ingress for a traced video request.
type entrance struct {
	name string
	// spans are the names of the spans between the caller's and the job's.
	spans []string
	// send returns the job ID, or "" if the caller does not learn it.
	send func(t *testing.T, w *world, c caller) string
}

var entrances = []entrance{
	{"http", []string{"POST /v1/video/generations"}, func(t *testing.T, w *world, c caller) string {
		return w.sendHTTP(t, "/v1/video/generations", `{"model":"sandbox-video:duration_ms=3000","prompt":"a cat"}`, c)
	}},
	{"gateway", []string{"POST /genbus/v1/videos", "genbus.v1.VideoService/CreateVideoTask", "genbus.v1.VideoService/CreateVideoTask"}, func(t *testing.T, w *world, c caller) string {
		return w.sendHTTP(t, "/genbus/v1/videos", `{"video":{"model":"sandbox-video:duration_ms=3000","prompt":"a cat"}}`, c)
	}},
	{"grpc", []string{"genbus.v1.VideoService/CreateVideoTask"}, func(t *testing.T, w *world, c caller) string {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", c.parent())
		r, err := genbusv1grpc.NewVideoServiceClient(w.grpc).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: videoOf("sandbox-video:duration_ms=3000")})
		if err != nil {
			t.Fatal(err)
		}
		return r.GetTask().GetId()
	}},
	{"call", []string{"genbus.call"}, func(t *testing.T, w *world, c caller) string {
		t.Helper()
		m := traced(t, w.Names().Call(subject.Video, "default"), c)
		reply, err := w.nc.RequestMsgWithContext(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return reply.Header.Get(subject.HeaderJobID)
	}},
	{"inbox", []string{"genbus.inbox video"}, func(t *testing.T, w *world, c caller) string {
		t.Helper()
		if _, err := w.js.PublishMsg(t.Context(), traced(t, w.Names().Request(subject.Video, "default"), c)); err != nil {
			t.Fatal(err)
		}
		return ""
	}},
}

// traced returns a video request as a NATS message with the caller's trace context.
func traced(t *testing.T, subj string, c caller) *nats.Msg {
	t.Helper()
	data, err := proto.Marshal(videoOf("sandbox-video:duration_ms=3000"))
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(subj)
	m.Header[subject.HeaderTraceParent] = []string{c.parent()}
	m.Data = data
	return m
}

func (w *world) sendHTTP(t *testing.T, path, body string, c caller, header ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", c.parent())
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if said, err := io.ReadAll(res.Body); err != nil || res.StatusCode/100 != 2 {
		t.Fatalf("%s: %s %s (%v)", path, res.Status, said, err)
	}
	return res.Header.Get("Genbus-Job-Id")
}

// exportTo makes the services of this test export traces to c. The test must not run in parallel.
func exportTo(t *testing.T, c *collectortest.Collector) {
	t.Helper()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
}

// TestOneTraceByEveryIngress proves that a video from each ingress, passed from one replica to
// another, has one trace from the caller's span to the last event.
func TestOneTraceByEveryIngress(t *testing.T) {
	collector, natsURL := collectortest.Start(t), startNATS(t)
	exportTo(t, collector)
	up := startSandbox(t, sandbox.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stopped atomic.Bool // no task ends before
	upstream := frontOf(t, up.URL(), func(string) bool { return !stopped.Load() })
	first, stopFirst := startReplica(t, natsURL, upstream)
	ids := map[string]string{}
	for i, in := range entrances {
		ids[in.name] = in.send(t, first, newCaller(i))
	}
	for i := range entrances {
		collector.Await(ctx, t, newCaller(i).trace, func(spans []collectortest.Span) bool {
			return len(collectortest.Named(spans, "genbus.video.create")) == 1
		})
	}
	second, _ := startReplica(t, natsURL, upstream)
	stopFirst()
	stopped.Store(true)
	for i, in := range entrances {
		c := newCaller(i)
		spans := collector.Await(ctx, t, c.trace, func(spans []collectortest.Span) bool { return len(collectortest.Named(spans, "genbus.video")) == 2 })
		t.Run(in.name, func(t *testing.T) {
			checkVideoTrace(t, second, c, in, ids[in.name], spans)
			if t.Failed() {
				t.Log(collectortest.Format(spans))
			}
		})
	}
}

func checkVideoTrace(t *testing.T, w *world, c caller, in entrance, id string, spans []collectortest.Span) {
	t.Helper()
	above := c.span
	for _, name := range in.spans {
		below := slices.IndexFunc(spans, func(s collectortest.Span) bool { return s.Name == name && s.Parent == above })
		if below < 0 {
			t.Fatalf("no span %s below %s", name, above)
		}
		above = spans[below].ID
	}
	holds := collectortest.Named(spans, "genbus.video")
	if holds[0].Parent != above || holds[1].Parent != above {
		t.Errorf("the holds are below %s and %s, not below the request's %s", holds[0].Parent, holds[1].Parent, above)
	}
	if got := holds[0].Attributes["genbus.outcome"] + ", " + holds[1].Attributes["genbus.outcome"]; got != "given_back, ended" {
		t.Errorf("the holds ended: %s", got)
	}
	if create := collectortest.Named(spans, "genbus.video.create"); len(create) != 1 || create[0].Parent != holds[0].ID || create[0].Kind != "CLIENT" {
		t.Errorf("creates: %v", create)
	}
	if n := len(spans); n != len(in.spans)+3 {
		t.Errorf("%d spans", n)
	}
	job := holds[1].Attributes["genbus.job_id"]
	if id != "" && id != job {
		t.Errorf("job %s was accepted, %s was traced", id, job)
	}
	names := w.Names()
	events := w.traceparents(t, names.Tasks(), names.Task(subject.Video, "default", job))
	for _, subj := range []string{events[len(events)-1],
		w.traceparents(t, names.Tasks(), names.Done(subject.Video, "default", "completed", job))[0],
		w.traceparents(t, names.UsageStream(), names.Usage(subject.Video, "default", job))[0]} {
		if want := "00-" + c.trace + "-" + holds[1].ID + "-01"; subj != want {
			t.Errorf("the end has traceparent %s, want %s", subj, want)
		}
	}
	for _, parent := range events {
		if !strings.HasPrefix(parent, "00-"+c.trace+"-") {
			t.Errorf("an event has traceparent %q", parent)
		}
	}
}

// traceparents returns the trace contexts of all messages on a subject, in order.
func (w *world) traceparents(t *testing.T, stream, subj string) (out []string) {
	t.Helper()
	stored, err := w.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	last, err := stored.GetLastMsgForSubject(t.Context(), subj)
	for m := (&jetstream.RawStreamMsg{}); err == nil && m.Sequence < last.Sequence; {
		if m, err = stored.GetMsg(t.Context(), m.Sequence+1, jetstream.WithGetMsgSubject(subj)); err == nil {
			out = append(out, m.Header.Get(subject.HeaderTraceParent))
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", subj, err)
	}
	return out
}

// TestChatsAreTraced proves that chunks and events of queued and inline chats belong to the
// caller's trace.
func TestChatsAreTraced(t *testing.T) {
	collector, natsURL := collectortest.Start(t), startNATS(t)
	exportTo(t, collector)
	up := startSandbox(t, sandbox.Options{ChunkInterval: time.Millisecond, ChunkCount: 4})
	w, _ := startReplica(t, natsURL, up.URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const body = `{"model":"sandbox-chat","stream":true,"messages":[{"role":"user","content":"tell me of the sea"}]}`
	for i, tt := range []struct {
		name   string
		header []string
		chain  []string // from the caller's request to the upstream call
	}{
		{"inline", nil, []string{"POST /v1/chat/completions", "genbus.chat.call"}},
		{"queued", []string{"Idempotency-Key", "one"}, []string{"POST /v1/chat/completions", "genbus.chat", "genbus.chat.call"}},
		{"not waited for", []string{"Prefer", "respond-async"}, []string{"POST /v1/chat/completions", "genbus.chat", "genbus.chat.call"}},
	} {
		c := newCaller(i)
		id := w.sendHTTP(t, "/v1/chat/completions", body, c, tt.header...)
		spans := collector.Await(ctx, t, c.trace, func(spans []collectortest.Span) bool { return len(spans) == len(tt.chain) })
		above := c.span
		for _, name := range tt.chain {
			found := collectortest.Named(spans, name)
			if len(found) != 1 || found[0].Parent != above {
				t.Errorf("%s: no span %s below %s:\n%s", tt.name, name, above, collectortest.Format(spans))
				break
			}
			above = found[0].ID
		}
		names := w.Names()
		await(t, "the end of "+id, func() bool {
			_, err := w.last(ctx, names.Tasks(), names.Done(subject.Chat, "default", "completed", id))
			return err == nil
		})
		all := append(w.traceparents(t, names.Tasks(), names.Task(subject.Chat, "default", id)), w.traceparents(t, names.Chunks(), names.Chunk("default", id))...)
		for _, parent := range all {
			span := strings.TrimSuffix(strings.TrimPrefix(parent, "00-"+c.trace+"-"), "-01")
			if !slices.ContainsFunc(spans, func(s collectortest.Span) bool { return s.ID == span }) {
				t.Errorf("%s: an event or a chunk has traceparent %q:\n%s", tt.name, parent, collectortest.Format(spans))
			}
		}
	}
}

// TestWithoutACollectorTheTraceIsPassedOn proves that without a collector, events name the caller's
// span, for each ingress.
func TestWithoutACollectorTheTraceIsPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, in := range entrances {
		if in.name == "inbox" { // its caller does not learn the ID; tested in package consumer
			continue
		}
		c := newCaller(i)
		id := in.send(t, w, c)
		names := w.Names()
		if got := w.traceparents(t, names.Tasks(), names.Task(subject.Video, "default", id))[0]; got != c.parent() {
			t.Errorf("%s: traceparent %q, want %q", in.name, got, c.parent())
		}
	}
}
