package admission

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
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
	log := tasklog.New(tasklog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	a := New(config.NewLive(cfg), b, log, broker.NewBodies(b), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var ushers sync.WaitGroup
	ushers.Go(func() { a.Follow(ctx, brokertest.Logger(t)) })
	for _, r := range cfg.Routes {
		if err := a.Count(ctx, r); err != nil {
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
