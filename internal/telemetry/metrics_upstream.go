package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type upstreamMetrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	failovers   *prometheus.CounterVec
	breakerOpen *prometheus.GaugeVec
	keysOut     *prometheus.GaugeVec
	held        *prometheus.GaugeVec
	retries     *prometheus.CounterVec
	firstBlock  *prometheus.HistogramVec
	skipped     *prometheus.CounterVec
}

func newUpstreamMetrics(f promauto.Factory) upstreamMetrics {
	return upstreamMetrics{
		requests: counters(f, "upstream_requests_total",
			"Calls of upstreams, by verdict and class of HTTP status (none: no answer).",
			"upstream", "op", "verdict", "status"),
		duration: histograms(f, requestBuckets, "upstream_request_duration_seconds",
			"Time from the start of a call to the end of its answer.", "upstream", "op"),
		failovers: counters(f, "upstream_failovers_total",
			"Jobs moved from one upstream to another.", "upstream"),
		breakerOpen: gauges(f, "upstream_breaker_open",
			"1 from the opening of an upstream's circuit breaker until a job succeeds, else 0.", "upstream"),
		keysOut: gauges(f, "upstream_keys_out",
			"Upstream keys that are paused or cooling down.", "upstream"),
		held: gauges(f, "upstream_in_hand",
			"Jobs that this replica has at an upstream.", "upstream"),
		retries: counters(f, "upstream_retries_total",
			"Retries to upstreams: sent, or held back by the retry budget.", "outcome"),
		firstBlock: histograms(f, requestBuckets, "upstream_first_block_seconds",
			"Time from the start of a streamed chat's call to its first block.", "upstream"),
		skipped: counters(f, "upstream_events_skipped_total",
			"Skipped events of streamed chats, such as heartbeats.", "upstream"),
	}
}

// Retry counts a retry that was sent or was held back by the retry budget.
func (m *Metrics) Retry(sent bool) {
	outcome := "held_back"
	if sent {
		outcome = "sent"
	}
	m.upstream.retries.WithLabelValues(outcome).Inc()
}

// UpstreamMetrics records the metrics of one upstream.
type UpstreamMetrics struct {
	upstreamMetrics
	name string

	// Series without further labels.
	moved           prometheus.Counter
	skippedEvents   prometheus.Counter
	first           prometheus.Observer
	open, out, held prometheus.Gauge
}

// Upstream returns the metrics of a configured upstream. Call it once per upstream and keep the
// result.
func (m *Metrics) Upstream(name string) *UpstreamMetrics {
	u := m.upstream
	return &UpstreamMetrics{
		upstreamMetrics: u, name: name,
		moved: u.failovers.WithLabelValues(name),
		open:  u.breakerOpen.WithLabelValues(name),
		out:   u.keysOut.WithLabelValues(name),
		held:  u.held.WithLabelValues(name),
		first: u.firstBlock.WithLabelValues(name),

		skippedEvents: u.skipped.WithLabelValues(name),
	}
}

// Request counts a finished call. op names the call (create, poll, chat, models). verdict is the
// verdict of a submission. For other calls, it is answered, failed or given_up (by the caller).
// httpStatus is 0 if there was no answer.
func (u *UpstreamMetrics) Request(op, verdict string, httpStatus int, took time.Duration) {
	u.requests.WithLabelValues(u.name, op, verdict, statusClass(httpStatus)).Inc()
	u.duration.WithLabelValues(u.name, op).Observe(took.Seconds())
}

// FirstBlock records the time from the start of a streamed chat's call to its first block.
func (u *UpstreamMetrics) FirstBlock(took time.Duration) {
	u.first.Observe(took.Seconds())
}

// EventSkipped counts a skipped event of a streamed chat, such as a heartbeat.
func (u *UpstreamMetrics) EventSkipped() {
	u.skippedEvents.Inc()
}

// FailedOver counts a job that moved to another upstream.
func (u *UpstreamMetrics) FailedOver() {
	u.moved.Inc()
}

// BreakerOpen sets whether the upstream's circuit breaker is open.
func (u *UpstreamMetrics) BreakerOpen(open bool) {
	u.open.Set(truth(open))
}

// KeysOut sets the number of upstream keys that are waiting or cooling down.
func (u *UpstreamMetrics) KeysOut(keys int) {
	u.out.Set(float64(keys))
}

// AddHeld adds to the number of jobs that this replica has at the upstream. jobs is negative when
// jobs end or move.
func (u *UpstreamMetrics) AddHeld(jobs int) {
	u.held.Add(float64(jobs))
}

// statusClass returns the class of a status, such as "2xx". It returns "none" for 0 and "other" for
// an invalid status.
func statusClass(status int) string {
	if status == 0 {
		return "none"
	}
	switch status / 100 {
	case 1:
		return "1xx"
	case 2:
		return "2xx"
	case 3:
		return "3xx"
	case 4:
		return "4xx"
	case 5:
		return "5xx"
	default:
		return "other"
	}
}
