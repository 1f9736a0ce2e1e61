package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

// Published is a kind of message that the broker stored.
type Published string

// Kinds of messages whose publishing is timed.
const (
	PublishedTask       Published = "task"        // a log event, until its write was confirmed
	PublishedDone       Published = "done"        // the event's copy in the feed
	PublishedChunk      Published = "chunk"       // blocks of a streamed chat
	PublishedDeadLetter Published = "dead_letter" // a dead letter
)

var published = []Published{PublishedTask, PublishedDone, PublishedChunk, PublishedDeadLetter}

type eventMetrics struct {
	chunks        prometheus.Counter
	chunksDropped prometheus.Counter
	inlineDropped prometheus.Counter
	readers       *prometheus.GaugeVec
	slowReaders   *prometheus.CounterVec
	publish       map[Published]prometheus.Observer // read-only after creation
}

func newEventMetrics(f promauto.Factory) eventMetrics {
	took := histograms(f, waitBuckets, "event_publish_duration_seconds",
		"Time from an event being ready until the broker has stored it, retries included.", "event")
	publish := make(map[Published]prometheus.Observer, len(published))
	for _, event := range published {
		publish[event] = took.WithLabelValues(string(event))
	}
	return eventMetrics{
		publish: publish,
		chunks: counter(f, "chunk_events_published_total",
			"Chat chunk events that the broker stored."),
		chunksDropped: counter(f, "chunk_events_dropped_total",
			"Dropped blocks of queued chats. A chunk event has up to 256."),
		inlineDropped: counter(f, "inline_events_dropped_total",
			"Dropped task events and blocks of inline chats: no capacity in time, or not stored."),
		readers: gauges(f, "readers_open",
			"Readers that follow a job on this replica.", "kind", "ingress"),
		slowReaders: counters(f, "slow_readers_cut_total",
			"Readers disconnected because their buffer was full or a write took too long.", "kind", "ingress"),
	}
}

// ChunksPublished counts chunk events that the broker stored.
func (m *Metrics) ChunksPublished(events int) {
	m.events.chunks.Add(float64(max(events, 0)))
}

// ChunksDropped counts dropped blocks of a queued chat.
func (m *Metrics) ChunksDropped(blocks int) {
	m.events.chunksDropped.Add(float64(max(blocks, 0)))
}

// InlineDropped counts task events or blocks of an inline chat that were dropped because capacity
// did not become available in time or they could not be stored.
func (m *Metrics) InlineDropped(lost int) {
	m.events.inlineDropped.Add(float64(max(lost, 0)))
}

// ReaderOpened counts a reader that starts to follow a job. Call closed once, when the reader
// stops.
func (m *Metrics) ReaderOpened(kind subject.Kind, ingress Ingress) (closed func()) {
	open := m.events.readers.WithLabelValues(string(kind), string(ingress))
	open.Inc()
	return open.Dec
}

// SlowReaderCut counts a reader disconnected for reading too slowly.
func (m *Metrics) SlowReaderCut(kind subject.Kind, ingress Ingress) {
	m.events.slowReaders.WithLabelValues(string(kind), string(ingress)).Inc()
}

// EventPublished records the time until the broker stored an event. It ignores unknown kinds.
func (m *Metrics) EventPublished(event Published, took time.Duration) {
	if o := m.events.publish[event]; o != nil {
		o.Observe(took.Seconds())
	}
}
