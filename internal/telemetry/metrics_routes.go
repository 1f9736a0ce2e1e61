package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

// PollOutcome is what one poll of a video task led to.
type PollOutcome string

// The outcomes of a poll.
const (
	PollChanged   PollOutcome = "changed"   // an event was written
	PollUnchanged PollOutcome = "unchanged" // nothing worth an event
	PollFailed    PollOutcome = "failed"    // no readable answer; polled again
)

type routeMetrics struct {
	waiting     *prometheus.GaugeVec
	held        *prometheus.GaugeVec
	polls       *prometheus.CounterVec
	lateness    *prometheus.HistogramVec
	redelivered *prometheus.CounterVec
	fetchErrors *prometheus.CounterVec
}

func newRouteMetrics(f promauto.Factory) routeMetrics {
	return routeMetrics{
		waiting: gauges(f, "jobs_waiting",
			"Accepted jobs that no replica holds yet, as this replica last read it.", "kind", "route"),
		held: gauges(f, "jobs_held",
			"Jobs that this replica works on or polls.", "kind", "route"),
		polls: counters(f, "polls_total",
			"Polls of video tasks that ended, by what they led to.", "kind", "route", "outcome"),
		lateness: histograms(f, waitBuckets, "poll_lateness_seconds",
			"How long after its due time a poll began.", "kind", "route"),
		redelivered: counters(f, "redeliveries_total",
			"Work items delivered more than once, including those that this replica already held.", "kind", "route"),
		fetchErrors: counters(f, "fetch_errors_total",
			"Fetches of work items that failed.", "kind", "route"),
	}
}

// RouteMetrics are the metrics of one route. Nil is legal and counts nothing.
type RouteMetrics struct {
	waiting     prometheus.Gauge
	held        prometheus.Gauge
	polls       map[PollOutcome]prometheus.Counter // read-only once made
	lateness    prometheus.Observer
	redelivered prometheus.Counter
	fetchErrors prometheus.Counter
}

// Route gives the metrics of one configured route. Call it once for each route
// and keep the answer. Nil gives nil.
func (m *Metrics) Route(kind subject.Kind, route string) *RouteMetrics {
	if m == nil {
		return nil
	}
	k := string(kind)
	r := &RouteMetrics{
		waiting:     m.routes.waiting.WithLabelValues(k, route),
		held:        m.routes.held.WithLabelValues(k, route),
		redelivered: m.routes.redelivered.WithLabelValues(k, route),
		fetchErrors: m.routes.fetchErrors.WithLabelValues(k, route),
	}
	if kind == subject.Video { // chats are not polled
		r.lateness = m.routes.lateness.WithLabelValues(k, route)
		r.polls = make(map[PollOutcome]prometheus.Counter, 3)
		for _, outcome := range []PollOutcome{PollChanged, PollUnchanged, PollFailed} {
			r.polls[outcome] = m.routes.polls.WithLabelValues(k, route, string(outcome))
		}
	}
	return r
}

// Waiting sets how many accepted jobs of the route wait for a replica, as read
// from the route's consumer.
func (r *RouteMetrics) Waiting(jobs uint64) {
	if r == nil {
		return
	}
	r.waiting.Set(float64(jobs))
}

// AddHeld adds to the number of jobs that this replica holds; negative when it
// lets go.
func (r *RouteMetrics) AddHeld(jobs int) {
	if r == nil {
		return
	}
	r.held.Add(float64(jobs))
}

// PollBegan records how long after its due time a poll began. A poll that is
// early counts as on time.
func (r *RouteMetrics) PollBegan(late time.Duration) {
	if r == nil || r.lateness == nil {
		return
	}
	r.lateness.Observe(max(late, 0).Seconds())
}

// PollEnded counts a poll. An outcome that is not one of the constants is not
// counted.
func (r *RouteMetrics) PollEnded(outcome PollOutcome) {
	if r == nil {
		return
	}
	if c := r.polls[outcome]; c != nil {
		c.Inc()
	}
}

// Redelivered counts a work item that was delivered before, to whichever
// replica.
func (r *RouteMetrics) Redelivered() {
	if r == nil {
		return
	}
	r.redelivered.Inc()
}

// FetchFailed counts a fetch that failed. A fetch that found nothing did not
// fail.
func (r *RouteMetrics) FetchFailed() {
	if r == nil {
		return
	}
	r.fetchErrors.Inc()
}
