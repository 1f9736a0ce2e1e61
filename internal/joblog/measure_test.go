package joblog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestCommitsAreMeasured proves that each stage of a job is counted once and that lost commits are
// not counted.
func TestCommitsAreMeasured(t *testing.T) {
	t.Parallel()
	b, m := brokertest.Single(t), telemetry.NewMetrics("test")
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: m, Logger: brokertest.Logger(t)})
	e := submit(t, l, "video_1")
	next := must[task.Event](t)(task.Failed(e.Job, e.Job.GetCreatedAt().AsTime().Add(90*time.Second), &genbusv1.TaskError{Code: "upstream_failed"}))
	end := must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
	if _, err := l.Commit(t.Context(), next, e.Seq); err == nil {
		t.Fatal("a second end was stored")
	}
	for range 2 { // by its holder and by a replica that takes over
		if err := l.Finish(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, m, "genbus_route_jobs_accepted_total", `genbus_route_jobs_accepted_total{kind="video",route="r"} 1`)
	compare(t, m, "genbus_route_jobs_finished_total", `genbus_route_jobs_finished_total{kind="video",route="r",status="failed",upstream="u"} 1`)
	compare(t, m, "genbus_task_log_writes_total", `genbus_task_log_writes_total{outcome="duplicate"} 0
genbus_task_log_writes_total{outcome="in_flight"} 0
genbus_task_log_writes_total{outcome="lost"} 1
genbus_task_log_writes_total{outcome="no_answer"} 0
genbus_task_log_writes_total{outcome="won"} 4`)
	for series, want := range map[string]uint64{
		`genbus_job_wait_seconds r`: 1, `genbus_job_duration_seconds r failed`: 1,
		`genbus_event_publish_duration_seconds task`: 4, `genbus_event_publish_duration_seconds done`: 2,
	} {
		name, labels, _ := strings.Cut(series, " ")
		if got := observed(t, m, name, strings.Fields(labels)...); got != want {
			t.Errorf("%s: %d observations, want %d", series, got, want)
		}
	}
}

// TestJobsThatNeverRanAreNotAccepted proves that a job that fails with its first event does not
// count as accepted.
func TestJobsThatNeverRanAreNotAccepted(t *testing.T) {
	t.Parallel()
	b, m := brokertest.Single(t), telemetry.NewMetrics("test")
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: m, Logger: brokertest.Logger(t)})
	must[joblog.Entry](t)(l.Commit(t.Context(), task.FailedAtOnce(work("video_1"), time.Now(), &genbusv1.TaskError{Code: "model_not_found"}), 0))
	compare(t, m, "genbus_route_jobs_accepted_total", "")
	compare(t, m, "genbus_route_jobs_finished_total", `genbus_route_jobs_finished_total{kind="video",route="r",status="failed",upstream=""} 1`)
}

// compare checks all series of a metric against the text of /metrics.
func compare(t *testing.T, m *telemetry.Metrics, name, want string) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && want != "" {
			want = "# HELP " + name + " " + f.GetHelp() + "\n# TYPE " + name + " " + strings.ToLower(f.GetType().String()) + "\n" + want + "\n"
		}
	}
	if err := testutil.GatherAndCompare(m.Gatherer(), strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}

// observed returns the number of observations of the histogram series with these label values.
func observed(t *testing.T, m *telemetry.Metrics, name string, values ...string) (n uint64) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			var have []string
			for _, label := range s.GetLabel() {
				have = append(have, label.GetValue())
			}
			fits := f.GetName() == name
			for _, v := range values {
				fits = fits && strings.Contains(" "+strings.Join(have, " ")+" ", " "+v+" ")
			}
			if fits {
				n += s.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

const (
	requestTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	requestParent = "00-" + requestTrace + "-00f067aa0ba902b7-01"
	ofSameTrace   = "00-" + requestTrace + "-b7ad6b7169203331-01"
	ofAnother     = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
)

// TestEventsStayInTheTraceOfTheirRequest proves that all events of a job are in its request's
// trace, whoever writes them.
func TestEventsStayInTheTraceOfTheirRequest(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b, publisher.JSON)
	in := func(parent string) map[string]string { return map[string]string{"traceparent": parent} }
	item := work("video_1")
	item.Trace = map[string]string{"traceparent": requestParent, "tracestate": "a=b"}
	e := must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(item), 0))
	now := time.Now()
	next := must[task.Event](t)(task.Submitting(video(e), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)}))
	e = must[joblog.Entry](t)(l.Commit(telemetry.Extract(t.Context(), in(ofSameTrace)), next, e.Seq))
	e = must[joblog.Entry](t)(l.Get(t.Context(), e.Name())) // as another replica reads it
	next = must[task.Event](t)(task.Cancelled(e.Job, now, &genbusv1.TaskError{Code: "cancelled"}))
	e = must[joblog.Entry](t)(l.Commit(telemetry.Extract(t.Context(), in(ofAnother)), next, e.Seq))
	if err := l.Finish(telemetry.Extract(t.Context(), in(ofAnother)), e); err != nil {
		t.Fatal(err)
	}
	names := b.Names()
	for _, tt := range []struct {
		stream, subject string
		want            []string
	}{
		{names.Tasks(), names.Task(subject.Video, "acme", "video_1"), []string{requestParent, ofSameTrace, requestParent}},
		{names.Tasks(), names.Done(subject.Video, "acme", "cancelled", "video_1"), []string{requestParent}},
		{names.UsageStream(), names.Usage(subject.Video, "acme", "video_1"), []string{requestParent}},
	} {
		for i, m := range all(t, b, tt.stream, tt.subject) {
			if got := m.Header.Get("traceparent"); got != tt.want[i] || m.Header.Get("ce-traceparent") != got {
				t.Errorf("%s, message %d: traceparent %s and ce-traceparent %s, want %s", tt.subject, i, got, m.Header.Get("ce-traceparent"), tt.want[i])
			}
			if state := m.Header.Get("tracestate"); (state == "a=b") != (tt.want[i] == requestParent) {
				t.Errorf("%s, message %d: tracestate %q", tt.subject, i, state)
			}
		}
	}
}

func all(t *testing.T, b *broker.Broker, stream, subj string) (out []broker.Stored) {
	t.Helper()
	last, err := b.Last(t.Context(), stream, subj)
	for m := (broker.Stored{}); err == nil && m.Seq < last.Seq; {
		if m, err = b.Next(t.Context(), stream, subj, m.Seq+1); err == nil {
			out = append(out, m)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", subj, err)
	}
	return out
}
