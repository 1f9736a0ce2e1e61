package telemetry_test

import (
	"testing"
	"time"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMetricsOfLifecycles(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	m.JobBegan(subject.Video, "fast")
	m.JobWaited(subject.Video, "fast", 3*time.Second)
	m.JobWaited(subject.Video, "fast", -time.Second) // another replica's clock
	m.Route(subject.Video, "fast").Submitted(4 * time.Second)
	m.Route(subject.Chat, "talk").Submitted(time.Second) // chats are not submitted
	m.JobEnded(subject.Video, "fast", "main", "completed", 2*time.Minute)
	m.JobEnded(subject.Video, "fast", "", "cancelled", time.Second)
	expectMetrics(t, m, `
		genbus_route_jobs_accepted_total{kind="video",route="fast"} 1
		genbus_route_jobs_finished_total{kind="video",route="fast",status="completed",upstream="main"} 1
		genbus_route_jobs_finished_total{kind="video",route="fast",status="cancelled",upstream=""} 1
		genbus_job_wait_seconds_bucket{kind="video",route="fast",le="0.01"} 1
		genbus_job_wait_seconds_bucket{kind="video",route="fast",le="5"} 2
		genbus_job_submit_seconds_sum{kind="video",route="fast"} 4
		genbus_job_duration_seconds_bucket{kind="video",route="fast",status="completed",le="120"} 1
	`)
	if got := linesOf(scrape(t, m.Handler()), `genbus_job_submit_seconds_count{kind="chat"`); got != "" {
		t.Errorf("chats are submitted: %s", got)
	}
}

func TestMetricsOfHeldPhases(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	r := m.Route(subject.Video, "fast")
	for range 2 { // two jobs, one of which ends
		r.Moved("", "queued")
		r.Moved("queued", "submitting")
		r.Moved("submitting", "submitting")
	}
	r.Moved("submitting", "completed") // not a phase of a held job
	r.Moved("completed", "")
	expectMetrics(t, m, `
		genbus_jobs_held_by_phase{kind="video",phase="queued",route="fast"} 0
		genbus_jobs_held_by_phase{kind="video",phase="submitting",route="fast"} 1
		genbus_jobs_held_by_phase{kind="video",phase="in_progress",route="fast"} 0
	`)
}

func TestMetricsOfWaiting(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	m.Route(subject.Chat, "talk").Oldest(90 * time.Second)
	m.Route(subject.Video, "fast").Oldest(-time.Second)
	m.Route(subject.Chat, "talk").AddInline(2)
	m.Route(subject.Chat, "talk").AddInline(-1)
	m.Route(subject.Video, "fast").AddInline(1) // videos are never inline
	m.StreamCount("GENBUS_WORK", 25, 100)
	m.StreamCount("GENBUS_TASKS", 25, -1)
	m.StreamRecreations("GENBUS_WORK", 1)
	m.EventPublished(telemetry.PublishedChunk, 3*time.Millisecond)
	m.EventPublished("made up", time.Second)
	m.Upstream("main").FirstBlock(200 * time.Millisecond)
	m.Ready(true, true)
	m.ClockOffset(-1500 * time.Millisecond)
	expectMetrics(t, m, `
		genbus_jobs_oldest_waiting_seconds{kind="chat",route="talk"} 90
		genbus_jobs_oldest_waiting_seconds{kind="video",route="fast"} 0
		genbus_inline_chats_open{route="talk"} 1
		genbus_stream_messages_ratio{stream="GENBUS_WORK"} 0.25
		genbus_stream_recreations{stream="GENBUS_WORK"} 1
		genbus_event_publish_duration_seconds_bucket{event="chunk",le="0.0025"} 0
		genbus_event_publish_duration_seconds_bucket{event="chunk",le="0.005"} 1
		genbus_event_publish_duration_seconds_count{event="task"} 0
		genbus_upstream_first_block_seconds_bucket{upstream="main",le="0.25"} 1
		genbus_ready 1
		genbus_ready_for_jobs 1
		genbus_clock_offset_seconds -1.5
	`)
	body := scrape(t, m.Handler())
	for _, wrong := range []string{`stream_messages_ratio{stream="GENBUS_TASKS"}`, `inline_chats_open{route="fast"}`, "made up"} {
		if got := linesOf(body, "genbus_"+wrong); got != "" {
			t.Errorf("%s", got)
		}
	}
	m.Ready(true, false)
	expectMetrics(t, m, "genbus_ready 1\ngenbus_ready_for_jobs 0")
}
