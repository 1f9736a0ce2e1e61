// Package apitest runs the whole API for tests: a broker, a sandbox, the core and every ingress,
// but no consumer.
package apitest

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// World is a replica without a consumer. Tests write the events that a consumer would write.
type World struct {
	*service.API
	T       testing.TB
	Cfg     *config.Config
	Sandbox *sandbox.Server
	HTTP    *httptest.Server
	Client  *http.Client
	// HeldJob is what the replica reports when asked whether it holds a job. Default: it holds
	// none.
	HeldJob *genbusv1.HeldJob
}

// Options configures a World.
type Options struct {
	// Change alters the configuration before it is used.
	Change []func(*config.Config)
	// Logger is the replica's logger. Default: the test's logger.
	Logger *slog.Logger
	// Replica is the ID that the replica reports to others. Default: the ID with which it writes
	// events. With a different ID, the writer appears to be gone.
	Replica string
}

// New starts a world. change may alter the configuration before it is used.
func New(t testing.TB, change ...func(*config.Config)) *World {
	t.Helper()
	return NewWith(t, Options{Change: change})
}

// NewWith starts a world with options.
func NewWith(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{T: t, Cfg: config.Default(), Client: &http.Client{Transport: &http.Transport{}, Timeout: brokertest.Patience}}
	b := brokertest.Single(t)
	w.startSandbox()
	if err := w.Cfg.AddSandbox(w.Sandbox.URL()); err != nil {
		t.Fatal(err)
	}
	for _, f := range o.Change {
		f(w.Cfg)
	}
	if err := w.Cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	w.startAPI(b, o)
	return w
}

func (w *World) startSandbox() {
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{ChunkInterval: time.Millisecond, ChunkCount: 5})
	if err != nil {
		w.T.Fatal(err)
	}
	w.Sandbox = s
	w.T.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.T.Error(err)
		}
	})
}

// startAPI starts the service without the consumer and the listeners, and with a fleet of one
// replica.
func (w *World) startAPI(b *broker.Broker, o Options) {
	metrics, logger := telemetry.NewMetrics("test"), cmp.Or(o.Logger, brokertest.Logger(w.T))
	table, err := routes.New(w.Cfg, metrics, logger)
	if err != nil {
		w.T.Fatal(err)
	}
	p := parts.New(parts.Options{
		Config: config.NewLive(w.Cfg), Broker: b, Routes: table, Metrics: metrics, Logger: logger,
		Tracing: telemetry.Tracing{Provider: noop.NewTracerProvider(), Propagator: propagation.TraceContext{}},
	})
	p.Content = content.NewReader(content.Options{Again: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}})
	self := cmp.Or(o.Replica, p.Log.Writer())
	w.API, err = service.NewAPI(w.T.Context(), p, service.APIOptions{
		Fleet: fleet.New(fleet.Options{
			Alone: true, State: func() *genbusv1.ReplicaState { return &genbusv1.ReplicaState{Id: self} },
			Self: self, Held: func(string) *genbusv1.HeldJob { return w.HeldJob },
		}),
		Health: &telemetry.Health{}, LocalKey: LocalKey, Version: "v1.2.3",
	})
	if err != nil {
		w.T.Fatal(err)
	}
	endLog, err := p.StartLog(context.WithoutCancel(w.T.Context()))
	if err != nil {
		w.T.Fatal(err)
	}
	w.HTTP = httptest.NewUnstartedServer(w.Handler)
	w.HTTP.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.HTTP.Start()
	w.T.Cleanup(func() {
		if err := w.Close(); err != nil {
			w.T.Errorf("close: %v", err)
		}
		w.Client.CloseIdleConnections()
		w.HTTP.Close()
		ctx, cancel := context.WithTimeout(context.Background(), brokertest.Patience)
		defer cancel()
		if err := w.Inline.Close(ctx); err != nil {
			w.T.Errorf("inline: %v", err)
		}
		endLog()
		table.Close()
		w.Content.Close()
	})
}

// TwoTenants configures a key for each of two tenants.
func TwoTenants(c *config.Config) {
	c.APIKeys = []config.APIKey{
		{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret("key-acme")},
		{Tenant: "globex", KeyEnv: "GLOBEX", Key: config.NewSecret("key-globex")},
	}
}

// Answer is a complete HTTP answer.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// JSON returns the decoded body.
func (a Answer) JSON(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		t.Fatalf("status %d, body %q: %v", a.Status, a.Body, err)
	}
	return v
}

// ErrorCode returns the code in the error envelope.
func (a Answer) ErrorCode(t testing.TB) string {
	t.Helper()
	e, _ := a.JSON(t)["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// Request builds a request. headers alternates names and values.
func (w *World) Request(method, path, body string, headers ...string) *http.Request {
	w.T.Helper()
	var reader io.Reader = http.NoBody
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(w.T.Context(), method, w.HTTP.URL+path, reader)
	if err != nil {
		w.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// Do sends a request, reads the answer and checks it against the OpenAPI document.
func (w *World) Do(method, path, body string, headers ...string) Answer {
	w.T.Helper()
	res, err := w.Client.Do(w.Request(method, path, body, headers...))
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatalf("%s %s: %v after %q", method, path, err, data)
	}
	w.checkContract(res, data)
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(data)}
}

// Get calls Do with GET and no body.
func (w *World) Get(path string, headers ...string) Answer {
	w.T.Helper()
	return w.Do(http.MethodGet, path, "", headers...)
}

// Post calls Do with POST.
func (w *World) Post(path, body string, headers ...string) Answer {
	w.T.Helper()
	return w.Do(http.MethodPost, path, body, headers...)
}

// VideoBody is a create request in the primary protocol.
const VideoBody = `{"model":"sandbox-video","prompt":"a cat"}`

// CreateVideo creates a task over HTTP and returns its ID.
func (w *World) CreateVideo(headers ...string) string {
	w.T.Helper()
	a := w.Post("/v1/video/generations", VideoBody, headers...)
	if a.Status != http.StatusOK {
		w.T.Fatalf("create: %d %s", a.Status, a.Body)
	}
	return a.Header.Get("Genbus-Job-Id")
}

// Must returns a function that returns its value and fails the test on an error.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Entry reads a job from the log.
func (w *World) Entry(kind subject.Kind, tenant, id string) joblog.Entry {
	w.T.Helper()
	return Must[joblog.Entry](w.T)(w.Log.Get(w.T.Context(), subject.JobName{Kind: kind, Tenant: tenant, ID: id}))
}

// Commit stores the event of a transition.
func (w *World) Commit(e joblog.Entry, next task.Event, err error) joblog.Entry {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
	return Must[joblog.Entry](w.T)(w.Log.Commit(w.T.Context(), next, e.Seq))
}

// StartVideo advances a task to in_progress.
func (w *World) StartVideo(tenant, id string) joblog.Entry {
	w.T.Helper()
	e, now := w.Entry(subject.Video, tenant, id), time.Now()
	next, err := task.Submitting(core.VideoOf(e), now, task.Submission{Upstream: "sandbox", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
	e = w.Commit(e, next, err)
	next, err = task.Submitted(core.VideoOf(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
	e = w.Commit(e, next, err)
	next, _, err = task.Observed(core.VideoOf(e), now, task.Observation{Started: true, Status: "running", Progress: 40})
	return w.Commit(e, next, err)
}

// EndVideo completes a started task.
func (w *World) EndVideo(e joblog.Entry) joblog.Entry {
	w.T.Helper()
	next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{
		Videos: []*genbusv1.Video{{Url: "http://x/1.mp4", Format: "mp4", DurationSeconds: 5}}, Metadata: []byte(`{"a":1}`), UpstreamStatus: "succeeded",
	})
	return w.Commit(e, next, err)
}

// LetGo removes the work item of an ended job, as its holder does.
func (w *World) LetGo(e joblog.Entry) {
	w.T.Helper()
	items, err := w.Queue.Items.All(w.T.Context(), e.Name())
	for _, i := range items {
		if err == nil {
			_, err = w.Queue.Items.Remove(w.T.Context(), i)
		}
	}
	if err != nil {
		w.T.Fatal(err)
	}
}

// StartChat begins an attempt of a chat.
func (w *World) StartChat(tenant, id string) joblog.Entry {
	w.T.Helper()
	e := w.Entry(subject.Chat, tenant, id)
	next, err := task.Started(core.ChatOf(e), time.Now(), task.Attempt{Upstream: "sandbox", Deadline: time.Now().Add(time.Hour)})
	return w.Commit(e, next, err)
}

// Chunk publishes blocks of the running attempt.
func (w *World) Chunk(e joblog.Entry, index uint64, blocks ...string) {
	w.T.Helper()
	c := &genbusv1.ChatChunk{Id: e.Job.GetId(), Attempt: core.ChatOf(e).GetAttempt(), Index: index, Time: timestamppb.Now()}
	for _, b := range blocks {
		c.Blocks = append(c.Blocks, []byte(b))
	}
	m, err := w.Encoder.Chunk(w.T.Context(), e.Job.GetTenant(), c)
	if err != nil {
		w.T.Fatal(err)
	}
	if _, err := w.Broker.Publish(w.T.Context(), m); err != nil {
		w.T.Fatal(err)
	}
}

// EndChat completes a chat with a reply.
func (w *World) EndChat(e joblog.Entry, reply string, chunks uint64) joblog.Entry {
	w.T.Helper()
	next, err := task.Replied(core.ChatOf(e), time.Now(), task.Reply{JSON: []byte(reply), Chunks: chunks})
	return w.Commit(e, next, err)
}

// FailChat ends a chat with an error.
func (w *World) FailChat(e joblog.Entry, why *genbusv1.TaskError) joblog.Entry {
	w.T.Helper()
	next, err := task.FailedChat(core.ChatOf(e), time.Now(), 0, why)
	return w.Commit(e, next, err)
}

// Dial connects a gRPC client over TCP.
func (w *World) Dial(opts ...grpc.DialOption) *grpc.ClientConn {
	w.T.Helper()
	listener := Must[net.Listener](w.T)(net.Listen("tcp", "127.0.0.1:0"))
	served := make(chan error, 1)
	go func() { served <- w.GRPC.GRPCServer().Serve(listener) }()
	conn := Must[*grpc.ClientConn](w.T)(grpc.NewClient(listener.Addr().String(),
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...))
	w.T.Cleanup(func() {
		if err := conn.Close(); err != nil {
			w.T.Error(err)
		}
		w.GRPC.GRPCServer().Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			w.T.Error(err)
		}
	})
	return conn
}

// CarryOn advances a task as its holder would, until it completes or another writer ends it.
func (w *World) CarryOn(id string) {
	w.T.Helper()
	e, now := w.Entry(subject.Video, "default", id), time.Now()
	step := func(next task.Event, err error) bool {
		if err != nil {
			return false // the task has ended
		}
		stored, err := w.Log.Commit(w.T.Context(), next, e.Seq)
		e = stored
		return err == nil
	}
	_ = step(task.Submitting(core.VideoOf(e), now, task.Submission{Upstream: "sandbox", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})) &&
		step(task.Submitted(core.VideoOf(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})) &&
		step(task.Completed(core.VideoOf(e), now, task.Result{Videos: []*genbusv1.Video{{Url: "http://x/1.mp4"}}}))
}

// Await polls until a condition is true.
func (w *World) Await(what string, is func() bool) {
	w.T.Helper()
	ctx, cancel := context.WithTimeoutCause(w.T.Context(), brokertest.Patience, fmt.Errorf("%s: not within %s", what, brokertest.Patience))
	defer cancel()
	for !is() {
		if err := broker.Wait(ctx, 5*time.Millisecond); err != nil {
			w.T.Fatal(err)
		}
	}
}

// Begun sends the head of a POST request with only the first byte of its body, and returns the
// answer.
func (w *World) Begun(path string, headers ...string) Answer {
	w.T.Helper()
	conn := Must[net.Conn](w.T)(net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://")))
	defer func() { _ = conn.Close() }()
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, 31<<20)
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n{"); err != nil {
		w.T.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(brokertest.Patience)); err != nil {
		w.T.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.T.Fatalf("%s with %v: %v", path, headers, err)
	}
	defer res.Body.Close()
	body := Must[[]byte](w.T)(io.ReadAll(res.Body))
	return Answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}
}
