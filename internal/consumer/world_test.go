package consumer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// patience is how long a test waits for an event before it gives up.
const patience = time.Minute

// newSandbox starts an upstream whose videos take a short while.
func newSandbox(t testing.TB) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 300 * time.Millisecond, ChunkInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// testConfig polls fast and takes over fast.
func testConfig(t testing.TB, url string, change ...func(*config.Config)) *config.Config {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox(url); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].AckWait = 3 * time.Second
		cfg.Routes[i].Poll.Interval = 100 * time.Millisecond
		cfg.Routes[i].Timeouts.Create = 2 * time.Second
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// replica is one process's worth of genbus, without its servers.
type replica struct {
	*Consumer
	cfg    *config.Config
	log    *tasklog.Log
	cancel context.CancelCauseFunc
	stop   func(graceful bool)
}

func newReplica(t testing.TB, b *broker.Broker, cfg *config.Config, change ...func(*Options)) *replica {
	t.Helper()
	r := idleReplica(t, b, cfg, change...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// idleReplica is one that takes no work.
func idleReplica(t testing.TB, b *broker.Broker, cfg *config.Config, change ...func(*Options)) *replica {
	t.Helper()
	o := Options{Metrics: telemetry.NewMetrics("test")}
	for _, f := range change {
		f(&o)
	}
	table, err := routes.New(cfg, o.Metrics, brokertest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	enc := publisher.Encoder{Names: b.Names(), Encoding: publisher.Encoding(cfg.Events.Encoding)}
	log := tasklog.New(tasklog.Options{Broker: b, Encoder: enc, Metrics: o.Metrics, Logger: brokertest.Logger(t)})
	ctx, cancel := context.WithCancelCause(t.Context())
	bodies, reader := broker.NewBodies(b), content.NewReader(content.Options{})
	t.Cleanup(reader.Close)
	live := config.NewLive(cfg)
	letters := quota.NewLetters(live, b)
	jobs := queue.New(live, b, log, letters)
	c := New(ctx, Options{
		Config: live, Broker: b, Log: log, Encoder: enc, Bodies: bodies, Uploads: natsreq.NewUploads(bodies, brokertest.Logger(t)), Content: reader, Routes: table,
		Admission: admission.New(admission.Options{Config: live, Broker: b, Log: log, Bodies: bodies, Queue: jobs, Letters: letters, Metrics: o.Metrics}),
		Queue:     jobs, Letters: letters, Metrics: o.Metrics, Tracing: o.Tracing, Logger: brokertest.Logger(t),
	})
	c.countEvery = 2 * time.Second
	wait, err := log.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Consumer: c, cfg: cfg, log: log, cancel: cancel}
	r.stop = func() func(bool) {
		var once sync.Once
		return func(graceful bool) {
			once.Do(func() { r.shutDown(t, table, wait, graceful) })
		}
	}()
	t.Cleanup(func() { r.stop(true) })
	return r
}

func (r *replica) shutDown(t testing.TB, table *routes.Table, wait func(), graceful bool) {
	grace := 10 * time.Second
	if !graceful {
		grace = 0
		r.held.forget()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), grace)
	defer cancel()
	if err := r.Drain(ctx); err != nil && graceful {
		t.Error(err)
	}
	r.cancel(ErrShutdown)
	wait()
	table.Close()
}

// forget makes a replica die without handing anything over: its messages are
// neither acknowledged nor given back.
func (r *registry) forget() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for _, j := range s.jobs {
			if v, ok := j.(*videoJob); ok {
				v.die()
			}
		}
		s.jobs = map[string]job{}
		s.mu.Unlock()
	}
}

func (j *videoJob) die() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.resolved = true
	if j.timer != nil {
		j.timer.Stop()
	}
}

// publish puts a request into the inbox and returns the id that its job has.
func publish(t testing.TB, b *broker.Broker, kind subject.Kind, requestID string, m proto.Message) string {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	msg := nats.NewMsg(b.Names().Request(kind, "acme"))
	msg.Data = data
	if _, err := b.Publish(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	return subject.JobID(kind, "acme", "request\x00"+requestID)
}

func videoRequest(requestID, model, prompt string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{RequestId: requestID, Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: model, Prompt: prompt}}}
}

func chatRequest(requestID, model string, stream bool) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{RequestId: requestID, Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: model, Stream: &stream,
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "tell me of the sea"}}},
	}}}
}

// follow collects a job's events until its end, or until the last is as wanted.
func follow(t testing.TB, l *tasklog.Log, id string, until ...genbusv1.JobPhase) []tasklog.Entry {
	t.Helper()
	kind, _ := subject.KindOf(id)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out []tasklog.Entry
	for {
		for e, err := range l.Follow(ctx, subject.TaskName{Kind: kind, Tenant: "acme", ID: id}, uint64(len(out))) {
			if errors.Is(err, tasklog.ErrNotFound) {
				break // not admitted yet
			}
			if err != nil {
				t.Fatalf("after %s: %v", phases(out), err)
			}
			out = append(out, e)
			for _, p := range until {
				if e.Job.GetExecution().GetPhase() == p {
					return out
				}
			}
		}
		if len(out) > 0 {
			return out
		}
		if err := broker.Wait(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func phases(entries []tasklog.Entry) string {
	var out []string
	for _, e := range entries {
		word := strings.ToLower(strings.TrimPrefix(e.Job.GetExecution().GetPhase().String(), "JOB_PHASE_"))
		if len(out) == 0 || out[len(out)-1] != word {
			out = append(out, word)
		}
	}
	return strings.Join(out, " ")
}

// last is the end of a job.
func last(entries []tasklog.Entry) tasklog.Entry { return entries[len(entries)-1] }

// doneOnce checks that the feed of finished jobs has the job once, with the
// ce-id of its terminal event, and that its work item is gone.
func doneOnce(t testing.TB, b *broker.Broker, end tasklog.Entry) {
	t.Helper()
	n := end.Name()
	status := strings.ToLower(strings.TrimPrefix(end.Job.GetStatus().String(), "JOB_STATUS_"))
	subj := b.Names().Done(n.Kind, n.Tenant, status, n.ID)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var first broker.Stored
	for {
		var err error
		if first, err = b.Next(ctx, b.Names().Tasks(), subj, 1); err == nil {
			break
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%s is not in the feed: %v", n.ID, err)
		}
	}
	if got := first.Header.Get(subject.HeaderCEID); got != end.ID() {
		t.Errorf("the feed has ce-id %s, the log %s", got, end.ID())
	}
	if _, err := b.Next(ctx, b.Names().Tasks(), subj, first.Seq+1); !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("%s stands twice in the feed: %v", n.ID, err)
	}
	for {
		_, err := b.Last(ctx, b.Names().Work(), b.Names().WorkAnyRoute(n.Kind, n.Tenant, n.ID))
		if errors.Is(err, broker.ErrNoMessage) {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("the work item of %s was not acknowledged", n.ID)
		}
	}
}

// deadLetters reads the letters of jobs and of rejected requests.
func deadLetters(t testing.TB, b *broker.Broker) []*genbusv1.DeadLetter {
	t.Helper()
	return append(lettersIn(t, b, b.Names().Dead()), lettersIn(t, b, b.Names().Rejected())...)
}

func lettersIn(t testing.TB, b *broker.Broker, stream string) []*genbusv1.DeadLetter {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	n := int(s.CachedInfo().State.Msgs)
	out := make([]*genbusv1.DeadLetter, 0, n)
	for range n {
		m := brokertest.Next(t, c)
		letter := &genbusv1.DeadLetter{}
		if err := proto.Unmarshal(m.Data(), letter); err != nil {
			t.Fatal(err)
		}
		out = append(out, letter)
	}
	return out
}
