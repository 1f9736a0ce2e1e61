package admission_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestOldest looks in the line and behind it. What was delivered waits no more.
func TestOldest(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newHall(t, open(t), 1)
		oldest := func() time.Time {
			t.Helper()
			at, err := h.Oldest(t.Context(), subject.Video, "sandbox-video")
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		accept := func(request string) time.Time {
			t.Helper()
			e, err := h.Admit(t.Context(), video(request, "a cat"))
			if err != nil {
				t.Fatal(err)
			}
			return e.Job.GetCreatedAt().AsTime()
		}
		if at := oldest(); !at.IsZero() {
			t.Errorf("nothing waits, but since %s", at)
		}
		inLine, behind := accept("one"), accept("two")
		// The consumer's leader hears of a new message after the stream has taken it.
		await(t, "the job in line is the oldest", func() bool { return oldest().Equal(inLine) })
		brokertest.Next(t, h.line)
		await(t, "the job behind the line is the oldest", func() bool { return oldest().Equal(behind) })
		if _, err := h.Oldest(t.Context(), subject.Chat, "no-such-route"); err == nil {
			t.Error("a route without a consumer has no error")
		}
	})
}

// TestOnlyNewJobsCountAsAccepted: a request that finds its job in the log does not.
func TestOnlyNewJobsCountAsAccepted(t *testing.T) {
	t.Parallel()
	cfg, b, m := config.Default(), brokertest.Single(t), telemetry.NewMetrics("test")
	if err := cfg.AddSandbox("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	log := tasklog.New(tasklog.Options{Broker: b, Metrics: m, Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t)})
	a := admission.New(config.NewLive(cfg), b, log, broker.NewBodies(b), m)
	for range 3 {
		r := video("one", "a cat")
		r.Way = telemetry.WayGRPC
		if _, err := a.Admit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	const name = "genbus_jobs_accepted_total"
	want := "# HELP " + name + " Jobs whose work item was stored, or inline chats that began.\n# TYPE " + name + " counter\n"
	for _, kind := range []string{"chat", "video"} {
		for _, way := range []string{"call", "grpc", "http", "nats"} {
			n := 0
			if kind == "video" && way == "grpc" {
				n = 1
			}
			want += fmt.Sprintf("%s{kind=%q,way=%q} %d\n", name, kind, way, n)
		}
	}
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}
