package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type upstreamMetrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newUpstreamMetrics(f promauto.Factory) upstreamMetrics {
	return upstreamMetrics{
		requests: counters(f, "upstream_requests_total",
			"Calls of upstreams, by verdict and class of HTTP status (none: no answer).",
			"upstream", "op", "verdict", "status"),
		duration: histograms(f, requestBuckets, "upstream_request_duration_seconds",
			"Time from the start of a call to the end of its answer.", "upstream", "op"),
	}
}

// UpstreamMetrics are the metrics of one upstream. Nil is legal and counts
// nothing.
type UpstreamMetrics struct {
	upstreamMetrics
	name string
}

// Upstream gives the metrics of one configured upstream. Call it once for each
// upstream and keep the answer. Nil gives nil.
func (m *Metrics) Upstream(name string) *UpstreamMetrics {
	if m == nil {
		return nil
	}
	return &UpstreamMetrics{upstreamMetrics: m.upstream, name: name}
}

// Request counts one call that ended. The op names the call (create, poll,
// chat, models); the verdict is that of a submission, or ok or failed for the
// calls that have none; httpStatus is 0 when no answer arrived.
func (u *UpstreamMetrics) Request(op, verdict string, httpStatus int, took time.Duration) {
	if u == nil {
		return
	}
	u.requests.WithLabelValues(u.name, op, verdict, statusClass(httpStatus)).Inc()
	u.duration.WithLabelValues(u.name, op).Observe(took.Seconds())
}

// statusClass gives 2xx and so on, none for 0, and other for a number that is
// no HTTP status.
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
