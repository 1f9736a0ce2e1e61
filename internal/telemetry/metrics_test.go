package telemetry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// expectMetrics checks that /metrics contains the lines of want.
func expectMetrics(t *testing.T, m *telemetry.Metrics, want string) {
	t.Helper()
	body := scrape(t, m.Handler())
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.Contains(body, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			t.Errorf("no line %s\ngot:\n%s", line, linesOf(body, name))
		}
	}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func linesOf(body, name string) string {
	var b strings.Builder
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, name) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestMetricsCount(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1.2.3")
	m.Accepted(subject.Video, telemetry.IngressNATS, "acme")
	m.Accepted(subject.Video, telemetry.IngressNATS, "acme")
	m.Refused(subject.Chat, telemetry.IngressHTTP, "queue_full")
	m.Admission(subject.Video, telemetry.IngressGRPC, 3*time.Millisecond)
	m.Transition(subject.Video, "submitting")
	m.Finished(subject.Video, "completed", "")
	m.Finished(subject.Video, "failed", "deadline_exceeded")
	m.Resumed(subject.Chat, "started")
	m.DeadLetter(subject.Video, "poisoned")
	m.CAS(telemetry.CASLost)
	m.ChunksPublished(7)
	m.ChunksDropped(2)
	m.InlineDropped(3)
	m.InlineDropped(-3) // a counter never goes backwards
	m.SlowReaderCut(subject.Chat, telemetry.IngressHTTP)
	m.Reconnected()
	m.Reloaded(telemetry.ReloadApplied)
	m.ConfigRead(time.UnixMilli(1_500))
	m.StreamState("GENBUS_TASKS", 10, 25, 100)
	m.StreamState("GENBUS_DEAD", 1, 5, -1)
	m.StreamHistory("GENBUS_USAGE", 0.5)
	m.LogCapacity(25, 15, 80, 90)
	m.SubmissionHeld(subject.Chat)
	m.HTTPRequest("GET /v1/models", 200, 20*time.Millisecond)
	m.HTTPRequest("", 404, time.Millisecond)
	m.HTTPRequest("GET /v1/models", 0, time.Millisecond)
	m.GRPCRequest("/genbus.v1.ChatService/GetChatCompletion", "NotFound", time.Millisecond)
	expectMetrics(t, m, `
		genbus_build_info{go_version="`+runtime.Version()+`",version="v1.2.3"} 1
		genbus_jobs_accepted_total{ingress="nats",kind="video"} 2
		genbus_jobs_accepted_total{ingress="call",kind="chat"} 0
		genbus_jobs_refused_total{code="queue_full",ingress="http",kind="chat"} 1
		genbus_admission_duration_seconds_bucket{ingress="grpc",kind="video",le="0.0025"} 0
		genbus_admission_duration_seconds_bucket{ingress="grpc",kind="video",le="0.005"} 1
		genbus_job_transitions_total{kind="video",phase="submitting"} 1
		genbus_jobs_finished_total{code="",kind="video",status="completed"} 1
		genbus_jobs_finished_total{code="deadline_exceeded",kind="video",status="failed"} 1
		genbus_jobs_resumed_total{kind="chat",phase="started"} 1
		genbus_dead_letters_total{code="poisoned",kind="video"} 1
		genbus_dead_letters_total{code="submission_outcome_unknown",kind="chat"} 0
		genbus_task_log_writes_total{outcome="lost"} 1
		genbus_task_log_writes_total{outcome="no_answer"} 0
		genbus_chunk_events_published_total 7
		genbus_chunk_events_dropped_total 2
		genbus_inline_events_dropped_total 3
		genbus_slow_readers_cut_total{ingress="http",kind="chat"} 1
		genbus_nats_reconnects_total 1
		genbus_config_reloads_total{outcome="applied"} 1
		genbus_config_reloads_total{outcome="refused"} 0
		genbus_config_last_success_timestamp_seconds 1.5
		genbus_stream_messages{stream="GENBUS_TASKS"} 10
		genbus_stream_bytes{stream="GENBUS_DEAD"} 5
		genbus_stream_used_ratio{stream="GENBUS_TASKS"} 0.25
		genbus_stream_history_ratio{stream="GENBUS_USAGE"} 0.5
		genbus_task_log_bytes{state="reserved"} 15
		genbus_task_log_bytes{state="used"} 25
		genbus_task_log_limit_bytes{limit="admission"} 80
		genbus_task_log_limit_bytes{limit="submission"} 90
		genbus_submissions_held_total{kind="chat"} 1
		genbus_http_requests_total{code="200",route="GET /v1/models"} 1
		genbus_http_requests_total{code="404",route="unmatched"} 1
		genbus_http_requests_total{code="other",route="GET /v1/models"} 1
		genbus_http_request_duration_seconds_count{route="GET /v1/models"} 2
		genbus_grpc_requests_total{code="NotFound",method="/genbus.v1.ChatService/GetChatCompletion"} 1
		genbus_grpc_request_duration_seconds_count{method="/genbus.v1.ChatService/GetChatCompletion"} 1
	`)
	if body := scrape(t, m.Handler()); strings.Contains(body, `genbus_stream_used_ratio{stream="GENBUS_DEAD"}`) {
		t.Error("a stream without MaxBytes has a ratio")
	}
}

func TestMetricsOfARoute(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	r := m.Route(subject.Video, "fast")
	r.Waiting(12, 3)
	r.AddHeld(3)
	r.AddHeld(-1)
	r.PollBegan(-time.Second)
	r.PollBegan(70 * time.Millisecond)
	r.PollEnded(telemetry.PollChanged)
	r.PollEnded("made up")
	r.Redelivered()
	r.FetchFailed()
	chat := m.Route(subject.Chat, "fast")
	chat.AddHeld(1)
	chat.PollBegan(time.Second) // chats are not polled
	chat.PollEnded(telemetry.PollChanged)
	expectMetrics(t, m, `
		genbus_jobs_waiting{kind="video",route="fast"} 12
		genbus_tenants_waiting{kind="video",route="fast"} 3
		genbus_jobs_held{kind="video",route="fast"} 2
		genbus_jobs_held{kind="chat",route="fast"} 1
		genbus_polls_total{kind="video",outcome="changed",route="fast"} 1
		genbus_polls_total{kind="video",outcome="failed",route="fast"} 0
		genbus_poll_lateness_seconds_bucket{kind="video",route="fast",le="0.0005"} 1
		genbus_poll_lateness_seconds_bucket{kind="video",route="fast",le="0.05"} 1
		genbus_poll_lateness_seconds_bucket{kind="video",route="fast",le="0.1"} 2
		genbus_redeliveries_total{kind="video",route="fast"} 1
		genbus_fetch_errors_total{kind="video",route="fast"} 1
	`)
	if n, err := testutil.GatherAndCount(m.Gatherer(), "genbus_polls_total"); err != nil || n != 3 {
		t.Errorf("%d series of polls, want 3 (%v)", n, err)
	}
	m.Route(subject.Video, "fast").AddHeld(1) // adds to the same series
	expectMetrics(t, m, `genbus_jobs_held{kind="video",route="fast"} 3`)
}

func TestMetricsOfAnUpstream(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	u := m.Upstream("main")
	u.Request("create", "accepted", 200, time.Second)
	u.Request("create", "unknown", 0, 2*time.Second)
	u.Request("poll", "ok", 503, time.Millisecond)
	u.Request("poll", "ok", 999, time.Millisecond)
	expectMetrics(t, m, `
		genbus_upstream_requests_total{op="create",status="2xx",upstream="main",verdict="accepted"} 1
		genbus_upstream_requests_total{op="create",status="none",upstream="main",verdict="unknown"} 1
		genbus_upstream_requests_total{op="poll",status="5xx",upstream="main",verdict="ok"} 1
		genbus_upstream_requests_total{op="poll",status="other",upstream="main",verdict="ok"} 1
		genbus_upstream_request_duration_seconds_sum{op="create",upstream="main"} 3
	`)
}

func TestMetricsOfReaders(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	closed := m.ReaderOpened(subject.Chat, telemetry.IngressGRPC)
	m.ReaderOpened(subject.Chat, telemetry.IngressGRPC)
	expectMetrics(t, m, `genbus_readers_open{ingress="grpc",kind="chat"} 2`)
	closed()
	expectMetrics(t, m, `genbus_readers_open{ingress="grpc",kind="chat"} 1`)
}

// TestMetricsAreNotGlobal checks that two Metrics in one process count separately.
func TestMetricsAreNotGlobal(t *testing.T) {
	t.Parallel()
	a, b := telemetry.NewMetrics("v1"), telemetry.NewMetrics("v1")
	a.Reconnected()
	expectMetrics(t, a, "genbus_nats_reconnects_total 1")
	expectMetrics(t, b, "genbus_nats_reconnects_total 0")
}

func TestMetricsPassTheLinter(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	callEverything(t, reflect.ValueOf(m))
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "genbus_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestMetricsIncludeTheProcess(t *testing.T) {
	t.Parallel()
	body := scrape(t, telemetry.NewMetrics("v1").Handler())
	want := []string{"go_goroutines ", "promhttp_metric_handler_errors_total"}
	if runtime.GOOS == "linux" {
		want = append(want, "process_open_fds ")
	}
	for _, name := range want {
		if !strings.Contains(body, "\n"+name) {
			t.Errorf("no %s", name)
		}
	}
}

// callEverything calls each method of v, and of the values it returns, with zero values.
func callEverything(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumMethod() {
		f := v.Method(i)
		args := make([]reflect.Value, f.Type().NumIn())
		for j := range args {
			args[j] = reflect.Zero(f.Type().In(j))
		}
		for _, out := range f.Call(args) {
			switch h := out.Interface().(type) {
			case *telemetry.RouteMetrics, *telemetry.UpstreamMetrics:
				callEverything(t, reflect.ValueOf(h))
			}
		}
	}
}

// TestHotMetricsDoNotAllocate checks that methods called for each poll, chunk or write do not
// allocate. It is not parallel: AllocsPerRun counts the whole process.
func TestHotMetricsDoNotAllocate(t *testing.T) {
	m := telemetry.NewMetrics("v1")
	route, up := m.Route(subject.Video, "r"), m.Upstream("u")
	hot := func() {
		route.PollBegan(time.Millisecond)
		route.PollEnded(telemetry.PollUnchanged)
		route.AddHeld(1)
		route.Moved("queued", "submitting")
		route.Submitted(time.Second)
		m.ChunksPublished(1)
		m.EventPublished(telemetry.PublishedChunk, time.Millisecond)
		m.EventPublished(telemetry.PublishedTask, time.Millisecond)
		m.JobWaited(subject.Video, "r", time.Second)
		m.JobEnded(subject.Video, "r", "u", "completed", time.Second)
		m.InlineDropped(1)
		m.CAS(telemetry.CASWon)
		up.Request("poll", "ok", 200, time.Millisecond)
		up.FirstBlock(time.Millisecond)
	}
	if n := testing.AllocsPerRun(100, hot); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := telemetry.NewMetrics("v1")
	route, up := m.Route(subject.Video, "r"), m.Upstream("u")
	b.Run("chunk", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.ChunksPublished(1)
			m.EventPublished(telemetry.PublishedChunk, time.Millisecond)
		}
	})
	b.Run("commit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.EventPublished(telemetry.PublishedTask, time.Millisecond)
			m.CAS(telemetry.CASWon)
			m.Transition(subject.Video, "completed")
			m.JobEnded(subject.Video, "r", "u", "completed", time.Minute)
			route.Moved("in_progress", "completed")
		}
	})
	b.Run("poll", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			route.PollBegan(time.Millisecond)
			route.PollEnded(telemetry.PollUnchanged)
		}
	})
	b.Run("upstream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			up.Request("poll", "ok", 200, time.Millisecond)
		}
	})
	b.Run("accepted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.Accepted(subject.Video, telemetry.IngressNATS, "acme")
		}
	})
}
