package telemetry

import (
	"cmp"
	"slices"
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
	tenants     *prometheus.GaugeVec
	held        *prometheus.GaugeVec
	polls       *prometheus.CounterVec
	lateness    *prometheus.HistogramVec
	redelivered *prometheus.CounterVec
	fetchErrors *prometheus.CounterVec
	oldest      *prometheus.GaugeVec
	phases      *prometheus.GaugeVec
	inline      *prometheus.GaugeVec
	paused      *prometheus.GaugeVec
	draining    *prometheus.GaugeVec
	orphaned    *prometheus.GaugeVec
}

func newRouteMetrics(f promauto.Factory) routeMetrics {
	return routeMetrics{
		waiting: gauges(f, "jobs_waiting",
			"Accepted jobs that no replica holds yet, as this replica last read it.", "kind", "route"),
		tenants: gauges(f, "tenants_waiting",
			"Tenants with jobs in the backlog, as known to the replica that dispatches the route; 0 on the others.", "kind", "route"),
		held: gauges(f, "jobs_held",
			"Jobs that this replica works on or polls.", "kind", "route"),
		polls: counters(f, "polls_total",
			"Finished polls of video tasks, by result.", "kind", "route", "outcome"),
		lateness: histograms(f, waitBuckets, "poll_lateness_seconds",
			"How long after its due time a poll began.", "kind", "route"),
		redelivered: counters(f, "redeliveries_total",
			"Work items delivered more than once, including items that this replica already held.", "kind", "route"),
		fetchErrors: counters(f, "fetch_errors_total",
			"Fetches of work items that failed.", "kind", "route"),
		oldest: gauges(f, "jobs_oldest_waiting_seconds",
			"Age of the first waiting job, from its acceptance, as this replica last read it; 0 when none waits.", "kind", "route"),
		phases: gauges(f, "jobs_held_by_phase",
			"Jobs that this replica holds, by last known phase.", "kind", "route", "phase"),
		inline: gauges(f, "inline_chats_open",
			"Inline chats that run on this replica.", "route"),
		paused: gauges(f, "route_paused",
			"Whether an operator has paused the route, as this replica last read it: 1 or 0.", "kind", "route"),
		draining: gauges(f, "draining_jobs_left",
			"Jobs of a draining route that have not ended, over all replicas, as this replica last read it.", "kind", "route"),
		orphaned: gauges(f, "orphaned_jobs",
			"Jobs of unconfigured routes, over all replicas, as this replica last read it.", "kind", "route"),
	}
}

// RouteMetrics are the metrics of one route.
type RouteMetrics struct {
	waiting     prometheus.Gauge
	tenants     prometheus.Gauge
	held        prometheus.Gauge
	polls       map[PollOutcome]prometheus.Counter // read-only once made
	lateness    prometheus.Observer
	redelivered prometheus.Counter
	fetchErrors prometheus.Counter
	oldest      prometheus.Gauge
	paused      prometheus.Gauge
	phases      map[string]prometheus.Gauge // read-only once made
	submit      prometheus.Observer         // nil for chats
	inline      prometheus.Gauge            // nil for videos
}

// heldPhases are the phases of a job that is held, as logs and metrics write them.
var heldPhases = []string{"queued", "submitting", "submitted", "in_progress"}

// Route gives the metrics of one configured route. Call it once for each route
// and keep the answer.
func (m *Metrics) Route(kind subject.Kind, route string) *RouteMetrics {
	k := string(kind)
	r := &RouteMetrics{
		waiting:     m.routes.waiting.WithLabelValues(k, route),
		tenants:     m.routes.tenants.WithLabelValues(k, route),
		held:        m.routes.held.WithLabelValues(k, route),
		redelivered: m.routes.redelivered.WithLabelValues(k, route),
		fetchErrors: m.routes.fetchErrors.WithLabelValues(k, route),
		oldest:      m.routes.oldest.WithLabelValues(k, route),
		paused:      m.routes.paused.WithLabelValues(k, route),
		phases:      make(map[string]prometheus.Gauge, len(heldPhases)),
	}
	for _, phase := range heldPhases {
		r.phases[phase] = m.routes.phases.WithLabelValues(k, route, phase)
	}
	if kind == subject.Chat {
		r.inline = m.routes.inline.WithLabelValues(route)
	}
	if kind == subject.Video { // chats are neither submitted nor polled
		r.submit = m.lives.submit.WithLabelValues(k, route)
		r.lateness = m.routes.lateness.WithLabelValues(k, route)
		r.polls = make(map[PollOutcome]prometheus.Counter, 3)
		for _, outcome := range []PollOutcome{PollChanged, PollUnchanged, PollFailed} {
			r.polls[outcome] = m.routes.polls.WithLabelValues(k, route, string(outcome))
		}
	}
	return r
}

// Waiting sets how many accepted jobs of the route wait for a replica, ready and
// in the backlog, and of how many tenants there are some in the backlog.
func (r *RouteMetrics) Waiting(jobs uint64, tenants int) {
	r.waiting.Set(float64(jobs))
	r.tenants.Set(float64(tenants))
}

// OrphanedJobs are the jobs of a route that is not configured.
type OrphanedJobs struct {
	Kind  subject.Kind
	Route string
	Jobs  uint64
}

const (
	// maxOrphaned bounds the routes that have series of their own: their names come from
	// whatever configurations there were.
	maxOrphaned = 50
	// otherRoutes are those beyond; no route has this name.
	otherRoutes = "(others)"
)

// Orphaned sets the jobs of all routes that are not configured, those that have the most
// by name.
func (m *Metrics) Orphaned(routes []OrphanedJobs) {
	routes = slices.SortedFunc(slices.Values(routes), func(a, b OrphanedJobs) int { return cmp.Compare(b.Jobs, a.Jobs) })
	m.routes.orphaned.Reset()
	for i, r := range routes {
		if i >= maxOrphaned {
			r.Route = otherRoutes
		}
		m.routes.orphaned.WithLabelValues(string(r.Kind), r.Route).Add(float64(r.Jobs))
	}
}

// Draining sets how many jobs of a draining route have not ended.
func (m *Metrics) Draining(kind subject.Kind, route string, left uint64) {
	m.routes.draining.WithLabelValues(string(kind), route).Set(float64(left))
}

// NotDraining says that a route takes new jobs.
func (m *Metrics) NotDraining(kind subject.Kind, route string) {
	m.routes.draining.DeleteLabelValues(string(kind), route)
}

// Oldest sets the age of the first job that waits for a replica; 0 for none.
func (r *RouteMetrics) Oldest(age time.Duration) {
	r.oldest.Set(max(age, 0).Seconds())
}

// Paused sets whether an operator has paused the route.
func (r *RouteMetrics) Paused(paused bool) {
	if paused {
		r.paused.Set(1)
		return
	}
	r.paused.Set(0)
}

// Moved says that a held job is known in another phase: from is empty when it has
// just been taken, to when it is let go. Words that are no phase of a held job are
// not counted.
func (r *RouteMetrics) Moved(from, to string) {
	if from == to {
		return
	}
	if g := r.phases[from]; g != nil {
		g.Dec()
	}
	if g := r.phases[to]; g != nil {
		g.Inc()
	}
}

// Submitted records how long it took from a video task's acceptance until the log
// had the id that the upstream gave it.
func (r *RouteMetrics) Submitted(took time.Duration) {
	if r.submit == nil {
		return
	}
	r.submit.Observe(max(took, 0).Seconds())
}

// AddInline adds to the number of inline chats that run on this replica; negative
// when they end.
func (r *RouteMetrics) AddInline(chats int) {
	if r.inline == nil {
		return
	}
	r.inline.Add(float64(chats))
}

// AddHeld adds to the number of jobs that this replica holds; negative when it
// lets go.
func (r *RouteMetrics) AddHeld(jobs int) {
	r.held.Add(float64(jobs))
}

// PollBegan records how long after its due time a poll began. A poll that is
// early counts as on time.
func (r *RouteMetrics) PollBegan(late time.Duration) {
	if r.lateness == nil {
		return
	}
	r.lateness.Observe(max(late, 0).Seconds())
}

// PollEnded counts a poll. An outcome that is not one of the constants is not
// counted.
func (r *RouteMetrics) PollEnded(outcome PollOutcome) {
	if c := r.polls[outcome]; c != nil {
		c.Inc()
	}
}

// Redelivered counts a work item that was delivered before, to whichever
// replica.
func (r *RouteMetrics) Redelivered() {
	r.redelivered.Inc()
}

// FetchFailed counts a fetch that failed. A fetch that found nothing did not
// fail.
func (r *RouteMetrics) FetchFailed() {
	r.fetchErrors.Inc()
}
