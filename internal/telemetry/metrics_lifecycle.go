package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

// lifecycleMetrics tracks jobs from their first event to their last. The replica that commits an
// event counts it, so a sum over all replicas counts each job once.
type lifecycleMetrics struct {
	accepted *prometheus.CounterVec
	finished *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	submit   *prometheus.HistogramVec
	life     *prometheus.HistogramVec
}

func newLifecycleMetrics(f promauto.Factory) lifecycleMetrics {
	return lifecycleMetrics{
		accepted: counters(f, "route_jobs_accepted_total",
			"Jobs whose first event this replica committed.", "kind", "route"),
		finished: counters(f, "route_jobs_finished_total",
			"Jobs whose last event this replica committed; upstream is empty for a job that never had one.", "kind", "route", "upstream", "status"),
		wait: histograms(f, jobBuckets, "job_wait_seconds",
			"Time from the acceptance of a queued job to its first submission or attempt.", "kind", "route"),
		submit: histograms(f, jobBuckets, "job_submit_seconds",
			"Time from the acceptance of a video task until its upstream's id was in the log.", "kind", "route"),
		life: histograms(f, jobBuckets, "job_duration_seconds",
			"Time from the acceptance of a job to its last event.", "kind", "route", "status"),
	}
}

// JobBegan counts a job whose first event this replica committed, unless that event was terminal.
// route is the configured route of the job.
func (m *Metrics) JobBegan(kind subject.Kind, route string) {
	m.lifecycle.accepted.WithLabelValues(string(kind), route).Inc()
}

// JobWaited records how long a queued job waited for its first submission or attempt. Replica
// clocks differ, so negative durations count as 0.
func (m *Metrics) JobWaited(kind subject.Kind, route string, took time.Duration) {
	m.lifecycle.wait.WithLabelValues(string(kind), route).Observe(max(took, 0).Seconds())
}

// JobEnded counts a job whose terminal event this replica committed, and records its lifetime.
// upstream is the configured upstream of the job, or empty.
func (m *Metrics) JobEnded(kind subject.Kind, route, upstream, status string, life time.Duration) {
	m.lifecycle.finished.WithLabelValues(string(kind), route, upstream, status).Inc()
	m.lifecycle.life.WithLabelValues(string(kind), route, status).Observe(max(life, 0).Seconds())
}
