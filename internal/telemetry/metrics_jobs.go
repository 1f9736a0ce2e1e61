package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Ingress is the interface through which a request arrived.
type Ingress string

// Ingresses of requests.
const (
	IngressNATS Ingress = "nats" // a message on genbus.request.>
	IngressCall Ingress = "call" // a NATS request on genbus.call.>
	IngressGRPC Ingress = "grpc"
	IngressHTTP Ingress = "http"
)

var ingresses = []Ingress{IngressNATS, IngressCall, IngressGRPC, IngressHTTP}

// CASOutcome is the outcome of a compare-and-set on the task log.
type CASOutcome string

// Outcomes of a compare-and-set.
const (
	CASWon       CASOutcome = "won"       // the log has our nonce
	CASLost      CASOutcome = "lost"      // the log has another writer's nonce
	CASDuplicate CASOutcome = "duplicate" // the broker reported a duplicate
	CASInFlight  CASOutcome = "in_flight" // another write to the subject was in progress
	CASNoAnswer  CASOutcome = "no_answer" // no answer, so the write was sent again unchanged
)

var casOutcomes = []CASOutcome{CASWon, CASLost, CASDuplicate, CASInFlight, CASNoAnswer}

// lostWork lists the codes of dead letters for work that may be charged. They are rare, and even
// the first one matters.
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

// start creates series before their first event, so that a rate includes that event.
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

// Accepted counts a job whose work item was stored, or an inline chat that started. It counts the
// job in total and for its tenant. Requests that attach to an existing job do not count.
func (m *Metrics) Accepted(kind subject.Kind, ingress Ingress, tenant string) {
	m.jobs.accepted.WithLabelValues(string(kind), string(ingress)).Inc()
	m.tenants.accept(tenant)
}

// Refused counts a request refused by admission, by its code from the error table.
func (m *Metrics) Refused(kind subject.Kind, ingress Ingress, code string) {
	m.jobs.refused.WithLabelValues(string(kind), string(ingress), code).Inc()
}

// Admission records the duration of one admission, whatever its outcome.
func (m *Metrics) Admission(kind subject.Kind, ingress Ingress, took time.Duration) {
	m.jobs.admission.WithLabelValues(string(kind), string(ingress)).Observe(took.Seconds())
}

// Transition counts a committed change of phase, by the new phase.
func (m *Metrics) Transition(kind subject.Kind, phase string) {
	m.jobs.transitions.WithLabelValues(string(kind), phase).Inc()
}

// Finished counts a committed terminal event. code is a code from the error table, or empty unless
// the job failed.
func (m *Metrics) Finished(kind subject.Kind, status, code string) {
	m.jobs.finished.WithLabelValues(string(kind), status, code).Inc()
}

// Resumed counts a redelivered job that this replica took over, by the phase in its log.
func (m *Metrics) Resumed(kind subject.Kind, phase string) {
	m.jobs.resumed.WithLabelValues(string(kind), phase).Inc()
}

// DeadLetter counts a stored dead letter by its code.
func (m *Metrics) DeadLetter(kind subject.Kind, code string) {
	m.jobs.dead.WithLabelValues(string(kind), code).Inc()
}

// CAS counts the outcome of a compare-and-set on the task log. One write may count twice, for
// example as no_answer and then as won.
func (m *Metrics) CAS(outcome CASOutcome) {
	m.jobs.cas.WithLabelValues(string(outcome)).Inc()
}
