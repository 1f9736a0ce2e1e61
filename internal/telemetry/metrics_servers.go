package telemetry

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// unmatched replaces the empty pattern of an unmatched request. The path is never a label, because
// clients choose it.
const unmatched = "unmatched"

type serverMetrics struct {
	ready        prometheus.Gauge
	readyForJobs prometheus.Gauge
	clockOffset  prometheus.Gauge
	http         *prometheus.CounterVec
	httpDuration *prometheus.HistogramVec
	grpc         *prometheus.CounterVec
	grpcDuration *prometheus.HistogramVec
}

func newServerMetrics(f promauto.Factory) serverMetrics {
	return serverMetrics{
		ready: gauges(f, "ready",
			"1 while this replica is ready for calls (/readyz), else 0.").WithLabelValues(),
		readyForJobs: gauges(f, "ready_for_jobs",
			"1 while this replica accepts jobs (/readyz/jobs), else 0.").WithLabelValues(),
		clockOffset: gauges(f, "clock_offset_seconds",
			"Offset of this replica's clock from the broker's; negative if it is behind.").WithLabelValues(),
		http: counters(f, "http_requests_total",
			"HTTP requests answered, by pattern and status.", "route", "code"),
		httpDuration: histograms(f, requestBuckets, "http_request_duration_seconds",
			"Time from the header of a request to the end of its answer.", "route"),
		grpc: counters(f, "grpc_requests_total",
			"gRPC calls answered, by full method and code.", "method", "code"),
		grpcDuration: histograms(f, requestBuckets, "grpc_request_duration_seconds",
			"Time from the start of a gRPC call to its status.", "method"),
	}
}

// Ready sets whether this replica is ready for calls and whether it is ready for jobs.
func (m *Metrics) Ready(calls, jobs bool) {
	m.servers.ready.Set(truth(calls))
	m.servers.readyForJobs.Set(truth(jobs))
}

// ClockOffset sets how far this replica's clock is ahead of the broker's.
func (m *Metrics) ClockOffset(offset time.Duration) {
	m.servers.clockOffset.Set(offset.Seconds())
}

// HTTPRequest counts an answered HTTP request. pattern is http.Request.Pattern after routing, or
// empty if no pattern matched. status is the status written.
func (m *Metrics) HTTPRequest(pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = unmatched
	}
	m.servers.http.WithLabelValues(pattern, statusCode(status)).Inc()
	m.servers.httpDuration.WithLabelValues(pattern).Observe(took.Seconds())
}

// GRPCRequest counts a finished gRPC call. method is the full name of a registered method, and code
// is codes.Code.String().
func (m *Metrics) GRPCRequest(method, code string, took time.Duration) {
	m.servers.grpc.WithLabelValues(method, code).Inc()
	m.servers.grpcDuration.WithLabelValues(method).Observe(took.Seconds())
}

// statusCode returns the status in decimal, or "other" for an invalid status.
func statusCode(status int) string {
	if status < 100 || status > 599 {
		return "other"
	}
	return strconv.Itoa(status)
}
