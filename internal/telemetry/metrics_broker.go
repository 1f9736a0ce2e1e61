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
	counted    *prometheus.GaugeVec
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
		counted: gauges(f, "stream_messages_ratio",
			"Messages in a stream over its MaxMsgs.", "stream"),
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

// StreamCount sets how full a stream is by the number of its messages. Without a
// MaxMsgs (0 or less) there is no ratio.
func (m *Metrics) StreamCount(stream string, messages uint64, maxMessages int64) {
	if m == nil || maxMessages <= 0 {
		return
	}
	m.broker.counted.WithLabelValues(stream).Set(float64(messages) / float64(maxMessages))
}
