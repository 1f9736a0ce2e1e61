package admission_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// patience is how long a test waits for what is to happen.
const patience = 30 * time.Second

// movers are the jobs that an usher moves at a time, in whatever order.
const movers = 8

// hall is a replica's admission with its ushers, and a consumer of the route
// sandbox-video that takes what the test asks for.
type hall struct {
	*bundle
	cfg  *config.Config
	line jetstream.Consumer
	held []jetstream.Msg
}

// newHall gives the route's line so many places.
func newHall(t testing.TB, b *broker.Broker, places int, change ...func(*config.Route)) *hall {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs = places
		for _, f := range change {
			f(&cfg.Routes[i])
		}
	}
	log := tasklog.New(tasklog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	h := &hall{cfg: cfg, bundle: &bundle{Admission: admission.New(config.NewLive(cfg), b, log, broker.NewBodies(b), telemetry.NewMetrics("test")), b: b, log: log}}
	var err error
	h.line, err = b.EnsureConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{
		Durable: subject.WorkDurable(subject.Video, "sandbox-video"), FilterSubject: b.Names().WorkRoutePattern(subject.Video, "sandbox-video"),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxAckPending: 1000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// open starts the ushers.
func (h *hall) open(t testing.TB) *hall {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var ushers sync.WaitGroup
	ushers.Go(func() { h.Follow(ctx, brokertest.Logger(t)) })
	for _, r := range h.cfg.Routes {
		if err := h.Count(ctx, r, h.b.EnsureConsumer); err != nil {
			t.Error(err)
		}
		ushers.Go(func() { h.Usher(ctx, r, brokertest.Logger(t)) })
	}
	t.Cleanup(func() {
		cancel()
		ushers.Wait()
	})
	return h
}

func (h *hall) admit(t testing.TB, tenant, requestID string) tasklog.Entry {
	t.Helper()
	r := video(requestID, "a cat")
	r.Tenant = tenant
	e, err := h.Admit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// take fetches the next job of the line, and holds it.
func (h *hall) take(t testing.TB) subject.WorkName {
	t.Helper()
	m := brokertest.Next(t, h.line)
	h.Taken(subject.Video, "sandbox-video", 1)
	h.held = append(h.held, m)
	n, err := h.b.Names().ParseWorkItem(m.Subject())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serve takes the next job of the line and lets it go at once.
func (h *hall) serve(t testing.TB) subject.WorkName {
	t.Helper()
	n := h.take(t)
	if err := h.held[len(h.held)-1].DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n
}

// messages counts those of a stream on a pattern.
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

func (h *hall) inLine(t testing.TB) int {
	return messages(t, h.b, h.b.Names().Work(), h.b.Names().WorkPattern())
}

func (h *hall) behind(t testing.TB) int {
	return messages(t, h.b, h.b.Names().Wait(), h.b.Names().WaitPattern())
}

// await asks until it is so.
func await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > patience {
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// known waits until the ushers have heard of so many waiting tenants.
func (h *hall) known(t testing.TB, tenants int) {
	t.Helper()
	await(t, "waiting tenants", func() bool {
		_, n := h.Waiting(t.Context(), subject.Video, "sandbox-video")
		return n == tenants
	})
}

// put stores a work item as it is.
func (h *hall) put(t testing.TB, subj string, item *genbusv1.WorkItem) broker.Ack {
	t.Helper()
	return h.putRecorded(t, subj, item, 0)
}

// putRecorded is put for an item that says that the log has its job, with an event
// of this sequence unless it is 0.
func (h *hall) putRecorded(t testing.TB, subj string, item *genbusv1.WorkItem, recorded uint64) broker.Ack {
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

// stored is the work item of a request as admission stores it, without storing it.
func (h *hall) stored(t testing.TB, r admission.Request) *genbusv1.WorkItem {
	t.Helper()
	c, err := h.Check(r)
	if err != nil {
		t.Fatal(err)
	}
	return h.Item(t.Context(), r, c)
}

func (h *hall) waitSubject(item *genbusv1.WorkItem) string {
	return h.b.Names().WaitItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId())
}

func (h *hall) lineSubject(item *genbusv1.WorkItem) string {
	return h.b.Names().WorkItem(subject.Video, item.GetRoute(), item.GetTenant(), item.GetId())
}

func nameOf(item *genbusv1.WorkItem) subject.TaskName {
	return subject.TaskName{Kind: subject.Video, Tenant: item.GetTenant(), ID: item.GetId()}
}
