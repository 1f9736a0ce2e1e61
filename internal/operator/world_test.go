package operator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/joblog/joblogtest"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

const patience = brokertest.Patience

// replica is one process of genbus without its servers. Tests start its consumer.
type replica struct {
	*DeadLetterActions
	*Routes
	Jobs
	requests  Requests
	attention *Attention
	o         *parts.Parts
	t         testing.TB
	up        *sandbox.Server
	consumer  *consumer.Consumer
	started   bool
}

func newSandbox(t testing.TB) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 200 * time.Millisecond, ChunkInterval: time.Millisecond})
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

// newReplica returns a replica whose only upstream is the sandbox.
func newReplica(t testing.TB, b *broker.Broker, up *sandbox.Server, change ...func(*config.Config)) *replica {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox(up.URL()); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].AckWait = 3 * time.Second
		if cfg.Routes[i].Kind == config.KindVideo {
			cfg.Routes[i].Poll.Interval = 50 * time.Millisecond
			cfg.Routes[i].Timeouts.Create = patience // a late create would have an unknown outcome
		}
	}
	for _, f := range change {
		f(cfg)
	}
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	metrics := telemetry.NewMetrics("test")
	table, err := routes.New(cfg, metrics, brokertest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	p := parts.New(parts.Options{Config: config.NewLive(cfg), Broker: b, Routes: table, Metrics: metrics, Logger: brokertest.Logger(t)})
	work := consumer.New(t.Context(), p)
	endLog, err := p.StartLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	state := func() *genbusv1.ReplicaState {
		return &genbusv1.ReplicaState{Id: p.Log.Writer(), StartedAt: timestamppb.Now()}
	}
	op := New(p, fleet.New(fleet.Options{Alone: true, Self: p.Log.Writer(), State: state, Held: work.HeldJob}), nil)
	r := &replica{t: t, up: up, consumer: work, o: p, DeadLetterActions: op.DeadLetters, Routes: op.Routes, Jobs: op.Jobs, requests: op.Requests, attention: op.Attention}
	t.Cleanup(func() {
		r.stop()
		endLog()
		table.Close()
		p.Content.Close()
	})
	return r
}

func (r *replica) start() *replica {
	r.t.Helper()
	r.started = true
	if err := r.consumer.Start(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func (r *replica) stop() {
	if !r.started {
		return
	}
	r.started = false
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.t.Context()), patience)
	defer cancel()
	if err := r.consumer.Drain(ctx); err != nil {
		r.t.Error(err)
	}
}

func (r *replica) admit(kind subject.Kind, requestID, raw string) joblog.Entry {
	r.t.Helper()
	e, err := r.o.Admission.Admit(r.t.Context(), admission.Request{
		Kind: kind, Tenant: "acme", RequestID: requestID, Body: body.Parse([]byte(raw)), Labels: map[string]string{"team": "a"},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

const videoBody = `{"model":"sandbox-video","prompt":"a cat"}`

// dropCreates makes the sandbox accept every create and drop the connection, until it is called
// with false.
func dropCreates(up *sandbox.Server, drop bool) {
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost || !drop {
			return nil
		}
		return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
	})
}

// unknownDeadLetter ends a job as submission_outcome_unknown and returns its dead letter.
func (r *replica) unknownDeadLetter(up *sandbox.Server, requestID, body string) *genbusv1.StoredDeadLetter {
	r.t.Helper()
	dropCreates(up, true)
	defer dropCreates(up, false)
	e := r.admit(subject.Video, requestID, body)
	if end := r.end(e.Name()); end.Job.GetError().GetCode() != string(errcode.SubmissionUnknown) {
		r.t.Fatalf("the job ended %v", end.Job.GetError())
	}
	return r.deadLetterOf(e.Job.GetId())
}

// deadLetterOf returns the only dead letter of a job, with its request.
func (r *replica) deadLetterOf(id string) *genbusv1.StoredDeadLetter {
	r.t.Helper()
	var found []*genbusv1.StoredDeadLetter
	for _, l := range r.deadLetters(Query{Size: 100}) {
		if l.GetLetter().GetId() == id {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		r.t.Fatalf("%d dead letters of %s", len(found), id)
	}
	whole, err := r.DeadLetter(r.t.Context(), found[0].GetSequence())
	if err != nil {
		r.t.Fatal(err)
	}
	return whole
}

func (r *replica) deadLetters(q Query) []*genbusv1.StoredDeadLetter {
	r.t.Helper()
	page, err := r.List(r.t.Context(), q)
	if err != nil {
		r.t.Fatal(err)
	}
	return page.DeadLetters
}

func (r *replica) isRemoved(seq uint64) {
	r.t.Helper()
	if _, err := r.DeadLetter(r.t.Context(), seq); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
		r.t.Errorf("dead letter %d: %v", seq, err)
	}
}

func (r *replica) end(n subject.JobName) joblog.Entry {
	r.t.Helper()
	return r.until(n, genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
}

// until waits for a phase of a job, or its end.
func (r *replica) until(n subject.JobName, phase genbusv1.JobPhase) joblog.Entry {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	var after uint64
	for {
		for e, err := range r.o.Log.Follow(ctx, n, after) {
			if errors.Is(err, joblog.ErrNotFound) {
				break // not recorded yet
			}
			if err != nil {
				r.t.Fatalf("follow %s: %v", n.ID, err)
			}
			if after = e.Version(); e.Terminal() || e.Job.GetExecution().GetPhase() == phase {
				return e
			}
		}
		if err := broker.Wait(ctx, 10*time.Millisecond); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *replica) history(n subject.JobName) []joblog.Entry {
	r.t.Helper()
	all, err := joblogtest.History(r.t.Context(), r.o.Broker, n)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func videoOf(e joblog.Entry) *genbusv1.VideoTask {
	v, _ := e.Job.(*genbusv1.VideoTask)
	return v
}

func videoName(id string) subject.JobName {
	return subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}
}

// ask returns the existing upstream task for a create, by repeating it under the same key.
func ask(t testing.TB, up *sandbox.Server, path, key string, body []byte) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.URL()+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer any")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		ID   string `json:"id"`
		Data struct {
			TaskID string `json:"task_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.ID+answer.Data.TaskID == "" {
		t.Fatalf("%d %s: %v", res.StatusCode, data, err)
	}
	if answer.ID != "" {
		return answer.ID
	}
	return answer.Data.TaskID
}

func (r *replica) request(m *nats.Msg) {
	r.t.Helper()
	if _, err := r.o.Broker.Publish(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !is() {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

func msgOf(subj string, data []byte) *nats.Msg {
	m := nats.NewMsg(subj)
	m.Data = data
	return m
}
