package telemetry

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/subject"
)

// PollOutcome is the outcome of a poll of a video task.
type PollOutcome string

// Outcomes of a poll.
const (
	PollChanged   PollOutcome = "changed"   // an event was written
	PollUnchanged PollOutcome = "unchanged" // no event was needed
	PollFailed    PollOutcome = "failed"    // no readable answer; the task will be polled again
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

// RouteMetrics records the metrics of one route.
type RouteMetrics struct {
	waiting     prometheus.Gauge
	tenants     prometheus.Gauge
	held        prometheus.Gauge
	polls       map[PollOutcome]prometheus.Counter // read-only after creation
	lateness    prometheus.Observer
	redelivered prometheus.Counter
	fetchErrors prometheus.Counter
	oldest      prometheus.Gauge
	paused      prometheus.Gauge
	phases      map[string]prometheus.Gauge // read-only after creation
	submit      prometheus.Observer         // nil for chats
	inline      prometheus.Gauge            // nil for videos
}

// heldPhases lists the phases of a held job, as in logs and metrics.
var heldPhases = []string{"queued", "submitting", "submitted", "in_progress"}

// Route returns the metrics of a configured route. Call it once per route and keep the result.
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
		r.submit = m.lifecycle.submit.WithLabelValues(k, route)
		r.lateness = m.routes.lateness.WithLabelValues(k, route)
		r.polls = make(map[PollOutcome]prometheus.Counter, 3)
		for _, outcome := range []PollOutcome{PollChanged, PollUnchanged, PollFailed} {
			r.polls[outcome] = m.routes.polls.WithLabelValues(k, route, string(outcome))
		}
	}
	return r
}

// Waiting sets the number of accepted jobs of the route that no replica holds, whether ready or in
// the backlog, and the number of tenants with jobs in the backlog.
func (r *RouteMetrics) Waiting(jobs uint64, tenants int) {
	r.waiting.Set(float64(jobs))
	r.tenants.Set(float64(tenants))
}

// OrphanedJobs is the number of jobs of an unconfigured route.
type OrphanedJobs struct {
	Kind  subject.Kind
	Route string
	Jobs  uint64
}

const (
	// maxOrphaned limits how many unconfigured routes have their own series. Their names come from
	// past configurations.
	maxOrphaned = 50
	// otherRoutes is the label of all other unconfigured routes. It is not a legal route name.
	otherRoutes = "(others)"
)

// Orphaned sets the jobs of all unconfigured routes. Only the routes with the most jobs get their
// own series.
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

// Draining sets the number of unfinished jobs of a draining route.
func (m *Metrics) Draining(kind subject.Kind, route string, left uint64) {
	m.routes.draining.WithLabelValues(string(kind), route).Set(float64(left))
}

// NotDraining removes the route's draining series.
func (m *Metrics) NotDraining(kind subject.Kind, route string) {
	m.routes.draining.DeleteLabelValues(string(kind), route)
}

// Oldest sets the age of the first waiting job, or 0 if no job is waiting.
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

// Moved records a held job's change of phase. from is empty when the replica takes the job, and to
// is empty when it releases the job. Moved ignores phases that are not in heldPhases.
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

// Submitted records the time from a video task's acceptance until its upstream's ID was in the log.
func (r *RouteMetrics) Submitted(took time.Duration) {
	if r.submit == nil {
		return
	}
	r.submit.Observe(max(took, 0).Seconds())
}

// AddInline adds to the number of inline chats on this replica. chats is negative when chats end.
func (r *RouteMetrics) AddInline(chats int) {
	if r.inline == nil {
		return
	}
	r.inline.Add(float64(chats))
}

// AddHeld adds to the number of jobs that this replica holds. jobs is negative when it releases
// jobs.
func (r *RouteMetrics) AddHeld(jobs int) {
	r.held.Add(float64(jobs))
}

// PollBegan records how late a poll started. An early poll counts as on time.
func (r *RouteMetrics) PollBegan(late time.Duration) {
	if r.lateness == nil {
		return
	}
	r.lateness.Observe(max(late, 0).Seconds())
}

// PollEnded counts a poll. It ignores unknown outcomes.
func (r *RouteMetrics) PollEnded(outcome PollOutcome) {
	if c := r.polls[outcome]; c != nil {
		c.Inc()
	}
}

// Redelivered counts a work item that was delivered before, to any replica.
func (r *RouteMetrics) Redelivered() {
	r.redelivered.Inc()
}

// FetchFailed counts a failed fetch. An empty fetch is not a failure.
func (r *RouteMetrics) FetchFailed() {
	r.fetchErrors.Inc()
}
