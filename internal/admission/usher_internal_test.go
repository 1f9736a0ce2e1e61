package admission

import (
	"context"
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
	a := New(cfg, b, log, broker.NewBodies(b), nil)
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := a.StartUshers(ctx, brokertest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer wait()
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
