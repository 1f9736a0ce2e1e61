package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Ingress is how a request came in.
type Ingress string

// The ingresses.
const (
	IngressNATS Ingress = "nats" // a message on genbus.request.>
	IngressCall Ingress = "call" // a NATS request on genbus.call.>
	IngressGRPC Ingress = "grpc"
	IngressHTTP Ingress = "http"
)

// ingresses lists all of them.
var ingresses = []Ingress{IngressNATS, IngressCall, IngressGRPC, IngressHTTP}

// CASOutcome is how one compare-and-set on the task log ended.
type CASOutcome string

// The outcomes of a compare-and-set.
const (
	CASWon       CASOutcome = "won"       // our nonce is in the log
	CASLost      CASOutcome = "lost"      // another writer's is
	CASDuplicate CASOutcome = "duplicate" // the broker called it a repeat
	CASInFlight  CASOutcome = "in_flight" // another write to the subject was under ingress
	CASNoAnswer  CASOutcome = "no_answer" // sent again unchanged
)

var casOutcomes = []CASOutcome{CASWon, CASLost, CASDuplicate, CASInFlight, CASNoAnswer}

// lostWork are the codes of letters that hold what may be paid for. They are rare,
// and the first of each matters.
var lostWork = []errcode.Code{errcode.SubmissionUnknown, errcode.OrphanedSubmission, errcode.Poisoned, errcode.UpstreamRemoved}

type jobMetrics struct {
	accepted    *prometheus.CounterVec
	refused     *prometheus.CounterVec
	admission   *prometheus.HistogramVec
	transitions *prometheus.CounterVec
	finished    *prometheus.CounterVec
	resumed     *prometheus.CounterVec
	dead        *prometheus.CounterVec
	cas         *prometheus.CounterVec
}

func newJobMetrics(f promauto.Factory) jobMetrics {
	j := jobMetrics{
		accepted: counters(f, "jobs_accepted_total",
			"Jobs whose work item was stored, or inline chats that began.", "kind", "ingress"),
		refused: counters(f, "jobs_refused_total",
			"Requests that admission refused.", "kind", "ingress", "code"),
		admission: histograms(f, waitBuckets, "admission_duration_seconds",
			"Time from a decoded request to its acceptance or refusal.", "kind", "ingress"),
		transitions: counters(f, "job_transitions_total",
			"Transitions this replica committed, by the phase they led to.", "kind", "phase"),
		finished: counters(f, "jobs_finished_total",
			"Terminal events this replica committed; code is empty unless the job failed.", "kind", "status", "code"),
		resumed: counters(f, "jobs_resumed_total",
			"Redelivered jobs that this replica took over, by the phase they were in.", "kind", "phase"),
		dead: counters(f, "dead_letters_total",
			"Dead letters stored, by reason.", "kind", "code"),
		cas: counters(f, "task_log_writes_total",
			"Compare-and-set writes to the task log, by outcome.", "outcome"),
	}
	j.start()
	return j
}

// start makes series exist before they first count, so that a rate over them
// sees the first event.
func (j jobMetrics) start() {
	for _, kind := range subject.Kinds {
		for _, ingress := range ingresses {
			j.accepted.WithLabelValues(string(kind), string(ingress))
		}
		for _, code := range lostWork {
			j.dead.WithLabelValues(string(kind), string(code))
		}
	}
	for _, outcome := range casOutcomes {
		j.cas.WithLabelValues(string(outcome))
	}
}

// Accepted counts a job whose work item was stored, or an inline chat that
// began, in all and for its tenant. A request that attaches to an existing job is not counted.
func (m *Metrics) Accepted(kind subject.Kind, ingress Ingress, tenant string) {
	m.jobs.accepted.WithLabelValues(string(kind), string(ingress)).Inc()
	m.tenants.accept(tenant)
}

// Refused counts a request that admission refused, with the code string of the
// error table.
func (m *Metrics) Refused(kind subject.Kind, ingress Ingress, code string) {
	m.jobs.refused.WithLabelValues(string(kind), string(ingress), code).Inc()
}

// Admission records how long one admission took, whatever came of it.
func (m *Metrics) Admission(kind subject.Kind, ingress Ingress, took time.Duration) {
	m.jobs.admission.WithLabelValues(string(kind), string(ingress)).Observe(took.Seconds())
}

// Transition counts a committed change of phase, by the phase it led to.
func (m *Metrics) Transition(kind subject.Kind, phase string) {
	m.jobs.transitions.WithLabelValues(string(kind), phase).Inc()
}

// Finished counts a committed terminal event. The code is that of the error
// table, and empty unless the job failed.
func (m *Metrics) Finished(kind subject.Kind, status, code string) {
	m.jobs.finished.WithLabelValues(string(kind), status, code).Inc()
}

// Resumed counts a job that was redelivered and taken over, by the phase that
// its log was in.
func (m *Metrics) Resumed(kind subject.Kind, phase string) {
	m.jobs.resumed.WithLabelValues(string(kind), phase).Inc()
}

// DeadLetter counts a dead letter that was stored, with its reason.
func (m *Metrics) DeadLetter(kind subject.Kind, code string) {
	m.jobs.dead.WithLabelValues(string(kind), code).Inc()
}

// CAS counts one compare-and-set on the task log. One write may count more than
// once: no_answer, and then won.
func (m *Metrics) CAS(outcome CASOutcome) {
	m.jobs.cas.WithLabelValues(string(outcome)).Inc()
}
