package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

type brokerMetrics struct {
	reconnects prometheus.Counter
	messages   *prometheus.GaugeVec
	bytes      *prometheus.GaugeVec
	used       *prometheus.GaugeVec
	counted    *prometheus.GaugeVec
	history    *prometheus.GaugeVec
	logBytes   *prometheus.GaugeVec
	logLimit   *prometheus.GaugeVec
	held       *prometheus.CounterVec
	recreated  *prometheus.GaugeVec
	keepers    prometheus.Gauge
	ready      prometheus.Gauge
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
			"Bytes in a stream over its MaxBytes.", "stream"),
		counted: gauges(f, "stream_messages_ratio",
			"Messages in a stream over its MaxMsgs.", "stream"),
		history: gauges(f, "stream_history_ratio",
			"Time for which a stream keeps its messages before dropping the oldest, divided by its MaxAge; below 1 if its MaxBytes is too small.", "stream"),
		logBytes: gauges(f, "task_log_bytes",
			"Bytes of the task log that are used or reserved for unfinished jobs.", "state"),
		logLimit: gauges(f, "task_log_limit_bytes",
			"Bytes of the task log up to which jobs are admitted (used and reserved), and up to which they are submitted (used and a third of reserved).", "limit"),
		held: counters(f, "submissions_held_total",
			"Submissions delayed because the task log had no capacity for their ends.", "kind"),
		keepers: gauge(f, "index_keepers",
			"Replicas that keep the job index, as this replica knows them; at most 2."),
		ready: gauge(f, "index_ready",
			"1 if this replica keeps the job index and has read the whole log, else 0."),
		recreated: gauges(f, "stream_recreations",
			"Lost streams that this replica recreated empty.", "stream"),
	}
}

// Reconnected counts a reconnect to the broker.
func (m *Metrics) Reconnected() {
	m.broker.reconnects.Inc()
}

// StreamHistory sets how long a stream keeps its messages, as a share of its MaxAge.
func (m *Metrics) StreamHistory(stream string, share float64) {
	m.broker.history.WithLabelValues(stream).Set(share)
}

// LogCapacity sets the used and reserved bytes of the task log, and its limits for admission and
// submission.
func (m *Metrics) LogCapacity(used, reserved, admit, submit int64) {
	m.broker.logBytes.WithLabelValues("used").Set(float64(used))
	m.broker.logBytes.WithLabelValues("reserved").Set(float64(reserved))
	m.broker.logLimit.WithLabelValues("admission").Set(float64(admit))
	m.broker.logLimit.WithLabelValues("submission").Set(float64(submit))
}

// SubmissionHeld counts a submission postponed because the task log was full.
func (m *Metrics) SubmissionHeld(kind subject.Kind) {
	m.broker.held.WithLabelValues(string(kind)).Inc()
}

// StreamState sets the size of a stream. It does not set the ratio if maxBytes is 0 or less.
func (m *Metrics) StreamState(stream string, messages, bytes uint64, maxBytes int64) {
	m.broker.messages.WithLabelValues(stream).Set(float64(messages))
	m.broker.bytes.WithLabelValues(stream).Set(float64(bytes))
	if maxBytes > 0 {
		m.broker.used.WithLabelValues(stream).Set(float64(bytes) / float64(maxBytes))
	}
}

// StreamCount sets a stream's messages as a share of its MaxMsgs. It does nothing if maxMessages is
// 0 or less.
func (m *Metrics) StreamCount(stream string, messages uint64, maxMessages int64) {
	if maxMessages <= 0 {
		return
	}
	m.broker.counted.WithLabelValues(stream).Set(float64(messages) / float64(maxMessages))
}

// StreamRecreations sets how often this process has recreated a lost stream.
func (m *Metrics) StreamRecreations(stream string, times int) {
	m.broker.recreated.WithLabelValues(stream).Set(float64(times))
}

// IndexKeepers sets the number of replicas that keep the job index.
func (m *Metrics) IndexKeepers(n int) { m.broker.keepers.Set(float64(n)) }

// IndexReady sets whether this replica's job index is ready.
func (m *Metrics) IndexReady(ready bool) { m.broker.ready.Set(truth(ready)) }
