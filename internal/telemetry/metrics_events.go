package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

type eventMetrics struct {
	chunks        prometheus.Counter
	chunksDropped prometheus.Counter
	inlineDropped prometheus.Counter
	readers       *prometheus.GaugeVec
	slowReaders   *prometheus.CounterVec
}

func newEventMetrics(f promauto.Factory) eventMetrics {
	return eventMetrics{
		chunks: counter(f, "chunk_events_published_total",
			"Chat chunk events that the broker stored."),
		chunksDropped: counter(f, "chunk_events_dropped_total",
			"Chat chunk events of queued chats that were given up."),
		inlineDropped: counter(f, "inline_events_dropped_total",
			"Events of inline chats that were dropped rather than delay the caller."),
		readers: gauges(f, "readers_open",
			"Readers that follow a job on this replica.", "kind", "way"),
		slowReaders: counters(f, "slow_readers_cut_total",
			"Readers that were cut because their buffer was full.", "kind", "way"),
	}
}

// ChunksPublished counts chunk events that the broker stored.
func (m *Metrics) ChunksPublished(events int) {
	if m == nil {
		return
	}
	m.events.chunks.Add(float64(max(events, 0)))
}

// ChunksDropped counts chunk events of a queued chat that were given up.
func (m *Metrics) ChunksDropped(events int) {
	if m == nil {
		return
	}
	m.events.chunksDropped.Add(float64(max(events, 0)))
}

// InlineDropped counts events of an inline chat that were dropped rather than
// delay its caller.
func (m *Metrics) InlineDropped(events int) {
	if m == nil {
		return
	}
	m.events.inlineDropped.Add(float64(max(events, 0)))
}

// ReaderOpened counts a reader that begins to follow a job. The answer is to be
// called once, when it ends.
func (m *Metrics) ReaderOpened(kind subject.Kind, way Way) (closed func()) {
	if m == nil {
		return func() {}
	}
	open := m.events.readers.WithLabelValues(string(kind), string(way))
	open.Inc()
	return open.Dec
}

// SlowReaderCut counts a reader that was cut with slow_reader.
func (m *Metrics) SlowReaderCut(kind subject.Kind, way Way) {
	if m == nil {
		return
	}
	m.events.slowReaders.WithLabelValues(string(kind), string(way)).Inc()
}
