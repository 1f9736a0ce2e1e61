package api_test

import (
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
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/api"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/erasure"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...) }

// world is a whole service without a consumer: tests write what a consumer would.
type world struct {
	t       testing.TB
	cfg     *config.Config
	broker  *broker.Broker
	log     *tasklog.Log
	enc     publisher.Encoder
	sandbox *sandbox.Server
	metrics *telemetry.Metrics
	health  *telemetry.Health
	api     *api.Server
	http    *httptest.Server
	client  *http.Client
}

// newWorld starts one. change may alter the configuration before it is used.
func newWorld(t testing.TB, change ...func(*config.Config)) *world {
	t.Helper()
	return buildWorld(t, change, func(*api.Options) {})
}

// buildWorld is newWorld; alter may change the server's parts.
func buildWorld(t testing.TB, change []func(*config.Config), alter func(*api.Options)) *world {
	t.Helper()
	w := &world{t: t, broker: brokertest.Single(t), metrics: telemetry.NewMetrics("test"), health: &telemetry.Health{}}
	w.startSandbox()
	w.cfg = config.Default()
	if err := w.cfg.AddSandbox(w.sandbox.URL()); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(w.cfg)
	}
	if err := w.cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	w.startLog()
	w.startAPI(alter)
	return w
}

func (w *world) startSandbox() {
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{ChunkInterval: time.Millisecond, ChunkCount: 5})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sandbox = s
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) startLog() {
	w.enc = publisher.Encoder{Names: w.broker.Names()}
	w.log = tasklog.New(tasklog.Options{Broker: w.broker, Encoder: w.enc, Metrics: w.metrics, Logger: brokertest.Logger(w.t)})
	ctx, cancel := context.WithCancel(context.Background())
	wait, err := w.log.Start(ctx)
	if err != nil {
		cancel()
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		cancel()
		wait()
	})
}

func (w *world) startAPI(alter func(*api.Options)) {
	table, err := routes.New(w.cfg, w.metrics, brokertest.Logger(w.t))
	if err != nil {
		w.t.Fatal(err)
	}
	bodies, reader := broker.NewBodies(w.broker), content.NewReader(content.Options{})
	live := config.NewLive(w.cfg)
	letters := quota.NewLetters(live, w.broker)
	jobs := queue.New(live, w.broker, w.log, letters)
	adm := admission.New(admission.Options{Config: live, Broker: w.broker, Log: w.log, Bodies: bodies, Queue: jobs, Letters: letters, Metrics: w.metrics})
	uploads := natsreq.NewUploads(bodies, brokertest.Logger(w.t))
	runner := inline.New(inline.Options{
		Config: live, Admission: adm, Routes: table, Log: w.log, Broker: w.broker, Encoder: w.enc,
		Bodies: bodies, Metrics: w.metrics, Logger: brokertest.Logger(w.t),
	})
	eraser := erasure.Eraser{Broker: w.broker, Queue: jobs, Log: w.log, Bodies: bodies}
	o := api.Options{
		Config: live, Names: w.broker.Names(), Admission: adm, Queue: jobs, Log: w.log, Bodies: bodies, Uploads: uploads, Eraser: eraser,
		Operator: operator.New(operator.Options{
			Config: live, Broker: w.broker, Log: w.log, Bodies: bodies, Uploads: uploads, Admission: adm, Queue: jobs, Routes: table, Eraser: eraser, Logger: brokertest.Logger(w.t),
		}),
		Content: reader, Routes: table,
		Inline: runner, Chats: chatlog.New(w.broker, w.log, bodies, chatlog.Options{SettleWait: 100 * time.Millisecond}),
		Health: w.health, Metrics: w.metrics, Logger: brokertest.Logger(w.t), Version: "v1.2.3",
		Tracing: telemetry.Tracing{Provider: noop.NewTracerProvider(), Propagator: propagation.TraceContext{}},
	}
	alter(&o)
	server, err := api.New(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.api = server
	w.http = httptest.NewUnstartedServer(server.HTTPHandler())
	w.http.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.http.Start()
	w.client = &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	w.t.Cleanup(func() {
		if err := server.Close(); err != nil {
			w.t.Errorf("close: %v", err)
		}
		w.client.CloseIdleConnections()
		w.http.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := runner.Close(ctx); err != nil {
			w.t.Errorf("inline: %v", err)
		}
		table.Close()
		reader.Close()
	})
}

// twoTenants configures a key for each of two tenants.
func twoTenants(c *config.Config) {
	c.APIKeys = []config.APIKey{
		{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret("key-acme")},
		{Tenant: "globex", KeyEnv: "GLOBEX", Key: config.NewSecret("key-globex")},
	}
}

// answer is an HTTP answer that was read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("status %d, body %q: %v", a.status, a.body, err)
	}
	return v
}

// errorCode is the code of the error envelope.
func (a answer) errorCode(t testing.TB) string {
	t.Helper()
	e, _ := a.json(t)["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// request builds a request; headers are name and value by turns.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	var reader io.Reader = http.NoBody
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.http.URL+path, reader)
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (w *world) do(method, path, body string, headers ...string) answer {
	w.t.Helper()
	res, err := w.client.Do(w.request(method, path, body, headers...))
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v after %q", method, path, err, data)
	}
	w.checkContract(res, data)
	return answer{status: res.StatusCode, header: res.Header, body: string(data)}
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.do(http.MethodGet, path, "", headers...)
}

func (w *world) post(path, body string, headers ...string) answer {
	w.t.Helper()
	return w.do(http.MethodPost, path, body, headers...)
}

const videoBody = `{"model":"sandbox-video","prompt":"a cat"}`

// createVideo creates a task by HTTP and gives its id.
func (w *world) createVideo(headers ...string) string {
	w.t.Helper()
	a := w.post("/v1/video/generations", videoBody, headers...)
	if a.status != http.StatusOK {
		w.t.Fatalf("create: %d %s", a.status, a.body)
	}
	return a.header.Get("Genbus-Job-Id")
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (w *world) entry(kind subject.Kind, tenant, id string) tasklog.Entry {
	w.t.Helper()
	return must[tasklog.Entry](w.t)(w.log.Get(w.t.Context(), subject.TaskName{Kind: kind, Tenant: tenant, ID: id}))
}

// commit stores an event made of a transition.
func (w *world) commit(e tasklog.Entry, next task.Event, err error) tasklog.Entry {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	return must[tasklog.Entry](w.t)(w.log.Commit(w.t.Context(), next, e.Seq))
}

// startVideo carries a task to in_progress.
func (w *world) startVideo(tenant, id string) tasklog.Entry {
	w.t.Helper()
	e, now := w.entry(subject.Video, tenant, id), time.Now()
	next, err := task.Submitting(videoOf(e), now, task.Submission{Upstream: "sandbox", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
	e = w.commit(e, next, err)
	next, err = task.Submitted(videoOf(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})
	e = w.commit(e, next, err)
	next, _, err = task.Observed(videoOf(e), now, task.Observation{Started: true, Status: "running", Progress: 40})
	return w.commit(e, next, err)
}

// endVideo completes a task that was started.
func (w *world) endVideo(e tasklog.Entry) tasklog.Entry {
	w.t.Helper()
	next, err := task.Completed(videoOf(e), time.Now(), task.Result{
		Videos: []*genbusv1.Video{{Url: "http://x/1.mp4", Format: "mp4", DurationSeconds: 5}}, Metadata: []byte(`{"a":1}`), UpstreamStatus: "succeeded",
	})
	return w.commit(e, next, err)
}

func videoOf(e tasklog.Entry) *genbusv1.VideoTask {
	v, _ := e.Job.(*genbusv1.VideoTask)
	return v
}

func chatOf(e tasklog.Entry) *genbusv1.Chat {
	c, _ := e.Job.(*genbusv1.Chat)
	return c
}

// startChat begins an attempt.
func (w *world) startChat(tenant, id string) tasklog.Entry {
	w.t.Helper()
	e := w.entry(subject.Chat, tenant, id)
	next, err := task.Started(chatOf(e), time.Now(), task.Attempt{Upstream: "sandbox", Deadline: time.Now().Add(time.Hour)})
	return w.commit(e, next, err)
}

// chunk publishes blocks of the running attempt.
func (w *world) chunk(e tasklog.Entry, index uint64, blocks ...string) {
	w.t.Helper()
	c := &genbusv1.ChatChunk{Id: e.Job.GetId(), Attempt: chatOf(e).GetAttempt(), Index: index, Time: timestamppb.Now()}
	for _, b := range blocks {
		c.Blocks = append(c.Blocks, []byte(b))
	}
	m, err := w.enc.Chunk(w.t.Context(), e.Job.GetTenant(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.broker.Publish(w.t.Context(), m); err != nil {
		w.t.Fatal(err)
	}
}

// endChat completes a chat with a reply.
func (w *world) endChat(e tasklog.Entry, reply string, chunks uint64) tasklog.Entry {
	w.t.Helper()
	next, err := task.Replied(chatOf(e), time.Now(), task.Reply{JSON: []byte(reply), Chunks: chunks})
	return w.commit(e, next, err)
}

// failChat ends a chat with an error.
func (w *world) failChat(e tasklog.Entry, why *genbusv1.TaskError) tasklog.Entry {
	w.t.Helper()
	next, err := task.FailedChat(chatOf(e), time.Now(), 0, why)
	return w.commit(e, next, err)
}

// dial connects a gRPC client over TCP.
func (w *world) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	w.t.Helper()
	listener := must[net.Listener](w.t)(net.Listen("tcp", "127.0.0.1:0"))
	served := make(chan error, 1)
	go func() { served <- w.api.GRPCServer().Serve(listener) }()
	conn := must[*grpc.ClientConn](w.t)(grpc.NewClient(listener.Addr().String(),
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...))
	w.t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			w.t.Error(err)
		}
		w.api.GRPCServer().Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			w.t.Error(err)
		}
	})
	return conn
}

// carryOn does what an owner does, until somebody else ends the task.
func (w *world) carryOn(id string) {
	w.t.Helper()
	e, now := w.entry(subject.Video, "default", id), time.Now()
	step := func(next task.Event, err error) bool {
		if err != nil {
			return false // the task has ended
		}
		stored, err := w.log.Commit(w.t.Context(), next, e.Seq)
		e = stored
		return err == nil
	}
	_ = step(task.Submitting(videoOf(e), now, task.Submission{Upstream: "sandbox", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})) &&
		step(task.Submitted(videoOf(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"})) &&
		step(task.Completed(videoOf(e), now, task.Result{Videos: []*genbusv1.Video{{Url: "http://x/1.mp4"}}}))
}

// await asks again until it is so, for what has no event.
func (w *world) await(what string, is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.t.Context(), 20*time.Second, fmt.Errorf("%s: not within 20 s", what))
	defer cancel()
	for !is() {
		if err := broker.Wait(ctx, 5*time.Millisecond); err != nil {
			w.t.Fatal(err)
		}
	}
}
