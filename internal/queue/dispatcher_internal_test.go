package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// idle returns a queue of the sandbox's routes that makes no job ready.
func idle(t testing.TB, b *broker.Broker) (*Queue, *config.Config) {
	t.Helper()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs = 0
	}
	live := config.NewLive(cfg)
	log := joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	return New(live, b, log, quota.NewLetters(live, b)), cfg
}

// TestWhatWasMissedIsReadAgain: jobs wait, and the dispatcher has heard of none.
func TestWhatWasMissedIsReadAgain(t *testing.T) {
	brokertest.Long(t)
	t.Parallel()
	b := brokertest.Single(t)
	q, cfg := idle(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	var dispatchers sync.WaitGroup
	dispatchers.Go(func() { q.Run(ctx, brokertest.Logger(t)) })
	for _, r := range cfg.Routes {
		if _, err := q.Route(subject.Kind(r.Kind), r.Name).Ensure(ctx, r, b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
		dispatchers.Go(func() { q.Dispatch(ctx, subject.Kind(r.Kind), r.Name, r.ReadyJobs, brokertest.Logger(t)) })
	}
	defer dispatchers.Wait()
	defer cancel()
	if _, err := b.Publish(ctx, nats.NewMsg(b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", "video_1"))); err != nil {
		t.Fatal(err)
	}
	backlog := q.Route(subject.Video, config.SandboxVideoRoute).backlog
	known := func() {
		t.Helper()
		for begin := time.Now(); backlog.tenants() == 0; {
			if err := broker.Wait(ctx, 20*time.Millisecond); err != nil || time.Since(begin) > time.Minute {
				t.Fatal("the job is not known")
			}
		}
	}
	known()
	backlog.mu.Lock()
	backlog.roundRobin = newRoundRobin()
	backlog.mu.Unlock()
	known()
}

// TestJobThatEndsWhileItIsMoved: its caller cancels it, and takes it out of the queue,
// after the dispatcher has found that it had not ended, and before the dispatcher makes
// it ready, or while it does. It keeps no place there.
func TestJobThatEndsWhileItIsMoved(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		t.Run("before", func(t *testing.T) { endsWhileItIsMoved(t, open(t), true) })
		t.Run("meanwhile", func(t *testing.T) { endsWhileItIsMoved(t, open(t), false) })
	})
}

func endsWhileItIsMoved(t *testing.T, b *broker.Broker, before bool) {
	q, _ := idle(t, b)
	item := &genbusv1.WorkItem{
		Id: subject.JobID(subject.Video, "acme", t.Name()), Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Model: "m",
		Body: []byte("{}"), Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	}
	reserved, err := q.Reserve(item)
	if err == nil {
		_, err = reserved.Put(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := q.log.Commit(t.Context(), task.FromWork(item), 0)
	if err != nil {
		t.Fatal(err)
	}
	from, err := q.Items.Find(t.Context(), e.Name())
	if err != nil || from.Stream != b.Names().Wait() {
		t.Fatalf("the job is in %s: %v", from.Stream, err)
	}
	n, err := b.Names().ParseWaitItem(from.Subject)
	if err != nil {
		t.Fatal(err)
	}
	d := &mover{q: q, route: q.Route(n.Kind, n.Route)}
	mark, ended, err := d.ensureLogged(t.Context(), from)
	if err != nil || ended {
		t.Fatal(ended, err)
	}
	next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "cancelled").TaskError())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = q.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := q.log.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	looked, err := q.Items.All(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	if before {
		if err := q.Leave(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	v, err := d.enqueue(t.Context(), n, from, mark)
	if err != nil || v != enqueued {
		t.Fatal(v, err)
	}
	if v, err := d.removeMoved(t.Context(), n, from, v); err != nil || v != enqueued {
		t.Error(v, err)
	}
	if !before {
		if moved, err := q.removeAll(t.Context(), e, looked); err != nil || !moved {
			t.Fatalf("there is no second look: %v", err)
		}
		if err := q.Leave(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := q.Items.Find(t.Context(), e.Name()); !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("the job has an item in %s: %v", i.Stream, err)
	}
}
