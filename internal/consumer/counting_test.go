package consumer

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// value sums the series of a metric that have the labels: gauges and counters by value, histograms
// by the number of observations. found is false if there are none.
func value(t testing.TB, m *telemetry.Metrics, name string, labels map[string]string) (sum float64, found bool) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			if f.GetName() == name && has(s.GetLabel(), labels) {
				sum += s.GetGauge().GetValue() + s.GetCounter().GetValue() + float64(s.GetHistogram().GetSampleCount())
				found = true
			}
		}
	}
	return sum, found
}

func has[L interface {
	GetName() string
	GetValue() string
}](all []L, labels map[string]string) bool {
	n := 0
	for _, l := range all {
		if labels[l.GetName()] == l.GetValue() {
			n++
		}
	}
	return n == len(labels)
}

// reaches waits until a metric has a value.
func reaches(t testing.TB, m *telemetry.Metrics, want float64, name string, labels map[string]string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got, _ := value(t, m, name, labels)
		if got == want {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%s%v is %v, want %v", name, labels, got, want)
		}
	}
}

// TestHeldJobsAreCountedByPhase proves that each held job is in one gauge, and a dropped one in
// none.
func TestHeldJobsAreCountedByPhase(t *testing.T) {
	t.Parallel()
	b, up, m := brokertest.Single(t), newSlowUpstream(t), telemetry.NewMetrics("test")
	r := newReplica(t, b, testConfig(t, up.url), func(o *parts.Options) { o.Metrics = m })
	const phases = "genbus_jobs_held_by_phase"
	id := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video", "a cat"))
	follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	reaches(t, m, 1, phases, map[string]string{"kind": "video", "route": "sandbox-video", "phase": "in_progress"})
	reaches(t, m, 1, phases, map[string]string{"kind": "video"})
	chat := publish(t, b, subject.Chat, "two", chatRequest("two", "sandbox-chat", true))
	follow(t, r.log, chat, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)
	reaches(t, m, 1, phases, map[string]string{"kind": "chat", "phase": "in_progress"})
	close(up.done)
	for _, id := range []string{id, chat} {
		doneOnce(t, b, last(follow(t, r.log, id)))
	}
	reaches(t, m, 0, phases, nil)
	reaches(t, m, 0, "genbus_jobs_held", nil)
	for name, labels := range map[string]map[string]string{
		"genbus_job_submit_seconds":           {"kind": "video", "route": "sandbox-video"},
		"genbus_job_wait_seconds":             {"kind": "video", "route": "sandbox-video"},
		"genbus_job_duration_seconds":         {"kind": "chat", "route": "sandbox-chat", "status": "completed"},
		"genbus_upstream_first_block_seconds": {"upstream": "sandbox"},
	} {
		if n, _ := value(t, m, name, labels); n != 1 {
			t.Errorf("%s%v: %v observations, want 1", name, labels, n)
		}
	}
	if n, _ := value(t, m, "genbus_event_publish_duration_seconds", map[string]string{"event": "chunk"}); n == 0 {
		t.Error("no chunk was timed")
	}
}

// TestStoredMessagesAreCounted proves that a replica counts all streams, and the jobs of a route
// whose jobs it does not take.
func TestStoredMessagesAreCounted(t *testing.T) {
	t.Parallel()
	b, up, m := brokertest.Single(t), newSandbox(t), telemetry.NewMetrics("test")
	cfg := testConfig(t, up.URL(), onCluster, func(c *config.Config) { // a lone replica takes jobs back early
		for i := range c.Routes {
			c.Routes[i].MaxInFlight = 1
		}
	})
	first := newReplica(t, b, cfg)
	held := publish(t, b, subject.Video, "one", videoRequest("one", "sandbox-video:duration_ms=60000", "a cat"))
	follow(t, first.log, held, genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
	waiting := publish(t, b, subject.Video, "two", videoRequest("two", "sandbox-video:duration_ms=1", "a cat"))
	accepted := last(follow(t, first.log, waiting, genbusv1.JobPhase_JOB_PHASE_QUEUED)).Job.GetCreatedAt().AsTime()
	newReplica(t, b, cfg, func(o *parts.Options) { o.Metrics = m }) // counts at its start
	route := map[string]string{"kind": "video", "route": "sandbox-video"}
	reaches(t, m, 1, "genbus_jobs_waiting", route)
	reaches(t, m, 2, "genbus_stream_messages", map[string]string{"stream": b.Names().Work()})
	var age float64
	first.eventually(t, "how long the oldest waits", func() bool { // is read after the jobs are counted
		age, _ = value(t, m, "genbus_jobs_oldest_waiting_seconds", route)
		return age > 0
	})
	if age > time.Since(accepted).Seconds() {
		t.Errorf("the oldest waits for %v s, accepted %s ago", age, time.Since(accepted))
	}
	for _, s := range b.Streams().Configs() {
		labels := map[string]string{"stream": s.Name}
		_, counted := value(t, m, "genbus_stream_bytes", labels)
		if _, ratio := value(t, m, "genbus_stream_used_ratio", labels); !counted || ratio != (s.MaxBytes > 0) {
			t.Errorf("%s: counted %v, ratio of bytes %v", s.Name, counted, ratio)
		}
		if _, ratio := value(t, m, "genbus_stream_messages_ratio", labels); ratio != (s.MaxMsgs > 0) {
			t.Errorf("%s: ratio of messages %v", s.Name, ratio)
		}
	}
	if n, _ := value(t, m, "genbus_redeliveries_total", route); n != 0 {
		t.Errorf("%v redeliveries before there was one", n)
	}
	first.stop(true) // returns its job
	reaches(t, m, 1, "genbus_redeliveries_total", route)
}

// TestAStreamThatWillDropTooEarlySaysSo proves that a stream which cannot keep its max_age is
// logged once, before it drops anything.
func TestAStreamThatWillDropTooEarlySaysSo(t *testing.T) {
	t.Parallel()
	brokertest.EachLimited(t, broker.Limits{UsageMaxBytes: 1 << 20, ChunksMaxBytes: 1 << 20, RejectedMaxBytes: 1 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, m := open(t), telemetry.NewMetrics("test")
		var said bytes.Buffer
		c := &counter{broker: b, metrics: m, log: slog.New(slog.NewTextHandler(&said, nil))}
		short := map[string]bool{}
		for stream, subj := range map[string]string{
			b.Names().UsageStream(): b.Names().Usage(subject.Video, "acme", "v"),
			b.Names().Chunks():      b.Names().Chunk("acme", "c"),
			b.Names().Rejected():    b.Names().RejectedDeadLetter(subject.Video, "acme", "0"),
		} {
			labels := map[string]string{"stream": stream}
			count := func() float64 {
				c.countStream(t.Context(), stream, short)
				history, _ := value(t, m, "genbus_stream_history_ratio", labels)
				return history
			}
			if got := count(); got != 1 {
				t.Errorf("%s: %v of an empty stream", stream, got)
			}
			for range 14 { // 64 KiB each, of 1 MiB
				if _, err := b.JetStream().Publish(t.Context(), subj, make([]byte, 64<<10-200)); err != nil {
					t.Fatal(err)
				}
			}
			if got := count(); got <= 0 || got >= 1 {
				t.Errorf("%s: %v", stream, got)
			}
			count()
			s, err := b.Stream(t.Context(), stream)
			if err != nil || s.CachedInfo().State.Msgs != 14 {
				t.Fatalf("%s has dropped something already: %v, %v", stream, s, err)
			}
			if n := strings.Count(said.String(), "stream="+stream); n != 1 {
				t.Errorf("%s: said %d times:\n%s", stream, n, said.String())
			}
		}
	})
}
