package admission

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestWhatWasMissedIsReadAgain: jobs wait, and the usher has heard of none.
func TestWhatWasMissedIsReadAgain(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs = 0 // nothing moves
	}
	log := tasklog.New(tasklog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	a := New(config.NewLive(cfg), b, log, broker.NewBodies(b), telemetry.NewMetrics("test"))
	ctx, cancel := context.WithCancel(t.Context())
	var ushers sync.WaitGroup
	ushers.Go(func() { a.Follow(ctx, brokertest.Logger(t)) })
	for _, r := range cfg.Routes {
		if err := a.Count(ctx, r, b.EnsureConsumer); err != nil {
			t.Fatal(err)
		}
		ushers.Go(func() { a.Usher(ctx, r, brokertest.Logger(t)) })
	}
	defer ushers.Wait()
	defer cancel()
	if _, err := b.Publish(ctx, nats.NewMsg(b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", "video_1"))); err != nil {
		t.Fatal(err)
	}
	room := a.waiting.route(subject.Video, config.SandboxVideoRoute)
	known := func() {
		t.Helper()
		for begin := time.Now(); room.tenants() == 0; {
			if err := broker.Wait(ctx, 20*time.Millisecond); err != nil || time.Since(begin) > time.Minute {
				t.Fatal("the job is not known")
			}
		}
	}
	known()
	room.mu.Lock()
	room.turns = newTurns()
	room.mu.Unlock()
	known()
}

// TestJobThatEndsWhileItIsMoved: its caller cancels it, and takes it out of the queue,
// after the usher has found that it had not ended, and before the usher puts it in line,
// or while it does. It keeps no place there.
func TestJobThatEndsWhileItIsMoved(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		t.Run("before", func(t *testing.T) { endsWhileItIsMoved(t, open(t), true) })
		t.Run("meanwhile", func(t *testing.T) { endsWhileItIsMoved(t, open(t), false) })
	})
}

func endsWhileItIsMoved(t *testing.T, b *broker.Broker, before bool) {
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Routes {
		cfg.Routes[i].ReadyJobs = 0 // so that the job waits
	}
	log := tasklog.New(tasklog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	a := New(config.NewLive(cfg), b, log, broker.NewBodies(b), telemetry.NewMetrics("test"))
	e, err := a.Admit(t.Context(), Request{Kind: subject.Video, Tenant: "acme", Body: []byte(`{"model":"sandbox-video","prompt":"a cat"}`)})
	if err != nil {
		t.Fatal(err)
	}
	from, err := a.Find(t.Context(), e.Name())
	if err != nil || from.Stream != b.Names().Wait() {
		t.Fatalf("the job is in %s: %v", from.Stream, err)
	}
	n, err := b.Names().ParseWaitItem(from.Subject)
	if err != nil {
		t.Fatal(err)
	}
	u := &usher{Admission: a, kind: n.Kind, route: n.Route}
	mark, ended, err := u.record(t.Context(), from)
	if err != nil || ended {
		t.Fatal(ended, err)
	}
	next, err := task.Cancelled(e.Job, time.Now(), fault.New(fault.Cancelled, "cancelled").TaskError())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := log.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	looked, err := a.Items(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	if before {
		if err := a.Leave(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	v, err := u.putInLine(t.Context(), n, from, mark)
	if err != nil || v != stands {
		t.Fatal(v, err)
	}
	if v, err := u.removeMoved(t.Context(), n, from, v); err != nil || v != stands {
		t.Error(v, err)
	}
	if !before {
		if moved, err := a.leaveAll(t.Context(), e, looked); err != nil || !moved {
			t.Fatalf("nobody looks again: %v", err)
		}
		if err := a.Leave(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if i, err := a.Find(t.Context(), e.Name()); !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("the job has an item in %s: %v", i.Stream, err)
	}
}
