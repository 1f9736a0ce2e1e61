package queue_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// patience is how long a test waits for an event before it fails.
const patience = brokertest.Patience

// noReadyJobs keeps all jobs in the backlog.
const noReadyJobs = -1

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// replica is the queue and admission of one replica, with a consumer of route sandbox-video under
// the test's control.
type replica struct {
	*queue.Queue
	*admission.Admission
	b        *broker.Broker
	log      *joblog.Log
	cfg      *config.Config
	route    *queue.Route
	consumer jetstream.Consumer
	held     []jetstream.Msg
}

// newReplica returns a replica whose routes have this many ready jobs.
func newReplica(t testing.TB, b *broker.Broker, readyJobs int, change ...func(*config.Route)) *replica {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs, cfg.Routes[i].AckWait, cfg.Routes[i].MaxInFlight = readyJobs, time.Hour, 1000
		for _, f := range change {
			f(&cfg.Routes[i])
		}
	}
	p := parts.New(parts.Options{Config: config.NewLive(cfg), Broker: b, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	h := &replica{b: b, log: p.Log, cfg: cfg, Queue: p.Queue, Admission: p.Admission}
	h.route = h.Route(subject.Video, config.SandboxVideoRoute)
	for _, r := range cfg.Routes {
		c, err := h.Route(subject.Kind(r.Kind), r.Name).Ensure(t.Context(), r, b.Streams().EnsureConsumer)
		if err != nil {
			t.Fatal(err)
		}
		if r.Name == config.SandboxVideoRoute {
			h.consumer = c
		}
	}
	return h
}

func (h *replica) start(t testing.TB) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var dispatchers sync.WaitGroup
	dispatchers.Go(func() { h.Run(ctx, brokertest.Logger(t)) })
	for _, r := range h.cfg.Routes {
		dispatchers.Go(func() { h.Dispatch(ctx, subject.Kind(r.Kind), r.Name, r.ReadyJobs, brokertest.Logger(t)) })
	}
	t.Cleanup(func() {
		cancel()
		dispatchers.Wait()
	})
	return h
}

func (h *replica) admit(t testing.TB, tenant, requestID string) joblog.Entry {
	t.Helper()
	r := video(requestID, "a cat")
	r.Tenant = tenant
	e, err := h.Admit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// take takes the next ready job and holds it.
func (h *replica) take(t testing.TB) subject.WorkName {
	t.Helper()
	m := brokertest.Next(t, h.consumer)
	h.route.Taken(1)
	h.held = append(h.held, m)
	n, err := h.b.Names().ParseWorkItem(m.Subject())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serve takes the next ready job and acks it.
func (h *replica) serve(t testing.TB) subject.WorkName {
	t.Helper()
	n := h.take(t)
	if err := h.held[len(h.held)-1].DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// messages counts the subjects of a stream that match a pattern.
func messages(t testing.TB, b *broker.Broker, stream, pattern string) int {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(pattern))
	if err != nil {
		t.Fatal(err)
	}
	return len(info.State.Subjects)
}

func (h *replica) ready(t testing.TB) int {
	return messages(t, h.b, h.b.Names().Work(), h.b.Names().WorkPattern())
}

func (h *replica) waiting(t testing.TB) int {
	return messages(t, h.b, h.b.Names().Wait(), h.b.Names().WaitPattern())
}

func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// indexed waits until the backlog has this many tenants.
func (h *replica) indexed(t testing.TB, tenants int) {
	t.Helper()
	await(t, "waiting tenants", func() bool {
		_, n := h.route.Waiting(t.Context())
		return n == tenants
	})
}

func (h *replica) put(t testing.TB, subj string, item *genbusv1.WorkItem) broker.Ack {
	t.Helper()
	return h.putRecorded(t, subj, item, 0)
}

// putRecorded is put with the mark of a logged event, unless recorded is 0.
func (h *replica) putRecorded(t testing.TB, subj string, item *genbusv1.WorkItem, recorded uint64) broker.Ack {
	t.Helper()
	data, err := proto.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(subj)
	m.Data = data
	if recorded > 0 {
		m.Header.Set(subject.HeaderRecorded, strconv.FormatUint(recorded, 10))
	}
	ack, err := h.b.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return ack
}

// stored builds the work item of a request as admission does, without storing it.
func (h *replica) stored(t testing.TB, r admission.Request) *genbusv1.WorkItem {
	t.Helper()
	c, err := h.Check(r)
	if err != nil {
		t.Fatal(err)
	}
	return c.Item(t.Context(), r, time.Now())
}

func (h *replica) waitSubject(item *genbusv1.WorkItem) string {
	return h.b.Names().WaitItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId())
}

func (h *replica) workSubject(item *genbusv1.WorkItem) string {
	return h.b.Names().WorkItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId())
}

func nameOf(item *genbusv1.WorkItem) subject.JobName {
	return subject.JobName{Kind: subject.Video, Tenant: item.GetTenant(), ID: item.GetId()}
}

func video(requestID, prompt string) admission.Request {
	return admission.Request{Kind: subject.Video, Tenant: "acme", RequestID: requestID, Body: body.Parse(fmt.Appendf(nil, `{"model":"sandbox-video","prompt":%q}`, prompt))}
}

// item reads the item of a ready job.
func (h *replica) item(t testing.TB, id string) *genbusv1.WorkItem {
	t.Helper()
	m, err := h.b.Last(t.Context(), h.b.Names().Work(), h.b.Names().WorkAnyRoute(subject.Video, "acme", id))
	if err != nil {
		t.Fatal(err)
	}
	item, err := queue.Item{Stored: m}.Decode()
	if err != nil {
		t.Fatal(err)
	}
	return item
}
