package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type brokerMetrics struct {
	reconnects prometheus.Counter
	messages   *prometheus.GaugeVec
	bytes      *prometheus.GaugeVec
	used       *prometheus.GaugeVec
}

func newBrokerMetrics(f promauto.Factory) brokerMetrics {
	return brokerMetrics{
		reconnects: counter(f, "nats_reconnects_total",
			"Reconnects to the broker."),
		messages: gauges(f, "stream_messages",
			"Messages in a stream, as this replica last read it.", "stream"),
		bytes: gauges(f, "stream_bytes",
			"Bytes in a stream, as this replica last read it.", "stream"),
		used: gauges(f, "stream_used_ratio",
			"Bytes in a stream over its MaxBytes; admission refuses above 0.8 of the task log.", "stream"),
	}
}

// Reconnected counts a reconnect to the broker.
func (m *Metrics) Reconnected() {
	if m == nil {
		return
	}
	m.broker.reconnects.Inc()
}

// StreamState sets what is known of a stream. Without a MaxBytes (0 or less)
// there is no ratio.
func (m *Metrics) StreamState(stream string, messages, bytes uint64, maxBytes int64) {
	if m == nil {
		return
	}
	m.broker.messages.WithLabelValues(stream).Set(float64(messages))
	m.broker.bytes.WithLabelValues(stream).Set(float64(bytes))
	if maxBytes > 0 {
		m.broker.used.WithLabelValues(stream).Set(float64(bytes) / float64(maxBytes))
	}
}
