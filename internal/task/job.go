// Package task implements the state machine of jobs. It defines the allowed transitions and
// computes the job after each one. It does no I/O or logging and reads no clock. Callers pass the
// time and store the events.
package task

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Job is a *genbusv1.VideoTask or a *genbusv1.Chat.
type Job interface {
	proto.Message
	GetId() string
	GetTenant() string
	GetModel() string
	GetStatus() genbusv1.JobStatus
	GetVersion() uint64
	GetError() *genbusv1.TaskError
	GetLabels() map[string]string
	GetRequestId() string
	GetRetryOf() string
	GetCreatedAt() *timestamppb.Timestamp
	GetUpdatedAt() *timestamppb.Timestamp
	GetCompletedAt() *timestamppb.Timestamp
	GetExpiresAt() *timestamppb.Timestamp
	GetUsage() *genbusv1.Usage
	GetExecution() *genbusv1.Execution
}

// Event is an entry of a job's history. It contains the complete job after a transition. Never
// change the job once the event has been stored, because others may read it.
type Event struct {
	Job      Job
	Previous genbusv1.JobStatus
	Time     time.Time
	// Nonce identifies the write that stores the event. The write sets it.
	Nonce string
}

// Version returns the event's number in the job's history, from 1.
func (e Event) Version() uint64 { return e.Job.GetVersion() }

// ID returns "<job id>.<version>.<nonce>".
func (e Event) ID() string {
	return e.Job.GetId() + "." + strconv.FormatUint(e.Version(), 10) + "." + e.Nonce
}

// By marks a new event as written by a replica after this many deliveries of the job's work item.
// Call it before anything else reads the event.
func (e Event) By(writer string, deliveries uint64) Event {
	e.Job.GetExecution().Writer = writer
	e.Job.GetExecution().Deliveries = deliveries
	return e
}

// Terminal reports whether the event ends the job.
func (e Event) Terminal() bool { return Terminal(e.Job.GetExecution().GetPhase()) }

// TransitionError reports a transition that the job's phase does not allow.
type TransitionError struct {
	JobID    string
	From, To genbusv1.JobPhase
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("job %s cannot go from %s to %s", e.JobID, e.From, e.To)
}

// allowed is the transition table. A job may skip phases, because the upstream may be faster than
// the polls. Terminal phases have no transitions. Less obvious entries:
//   - a first event may be submitted (attached to an upstream's task), in progress (an inline chat)
//     or failed (can never run)
//   - queued to queued: a holder survived handling the job, or returned the work item
//   - queued to submitted: the upstream has found the task of a submission with unknown outcome
//   - submitting to submitting: the route resubmits after an unknown outcome
var allowed = map[genbusv1.JobPhase][]genbusv1.JobPhase{
	genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED: {queued, submitted, inProgress, failed},
	queued:                                  {queued, submitting, submitted, inProgress, failed, cancelled},
	submitting:                              {queued, submitting, submitted, failed, cancelled},
	submitted:                               {submitted, inProgress, completed, failed, cancelled},
	inProgress:                              {inProgress, completed, failed, cancelled},
}

const (
	queued     = genbusv1.JobPhase_JOB_PHASE_QUEUED
	submitting = genbusv1.JobPhase_JOB_PHASE_SUBMITTING
	submitted  = genbusv1.JobPhase_JOB_PHASE_SUBMITTED
	inProgress = genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS
	completed  = genbusv1.JobPhase_JOB_PHASE_COMPLETED
	failed     = genbusv1.JobPhase_JOB_PHASE_FAILED
	cancelled  = genbusv1.JobPhase_JOB_PHASE_CANCELLED
)

// Terminal reports whether a phase ends the job.
func Terminal(p genbusv1.JobPhase) bool { return p == completed || p == failed || p == cancelled }

// Status returns the status that clients see. The phases submitting and submitted count as queued.
func Status(p genbusv1.JobPhase) genbusv1.JobStatus {
	switch p {
	case queued, submitting, submitted:
		return genbusv1.JobStatus_JOB_STATUS_QUEUED
	case inProgress:
		return genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS
	case completed:
		return genbusv1.JobStatus_JOB_STATUS_COMPLETED
	case failed:
		return genbusv1.JobStatus_JOB_STATUS_FAILED
	case cancelled:
		return genbusv1.JobStatus_JOB_STATUS_CANCELLED
	default:
		return genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED
	}
}

// PhaseWord returns the phase as written in logs and metrics.
func PhaseWord(p genbusv1.JobPhase) string {
	switch p {
	case submitting:
		return "submitting"
	case submitted:
		return "submitted"
	default:
		return StatusWord(Status(p))
	}
}

// StatusWord returns the status as written in subjects, CloudEvents types and HTTP answers: queued,
// in_progress, completed, failed or cancelled, or unknown for a status from a newer version.
func StatusWord(s genbusv1.JobStatus) string {
	switch s {
	case genbusv1.JobStatus_JOB_STATUS_QUEUED:
		return "queued"
	case genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS:
		return "in_progress"
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		return "completed"
	case genbusv1.JobStatus_JOB_STATUS_FAILED:
		return "failed"
	case genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return "cancelled"
	default:
		return "unknown"
	}
}

// StatusOf returns the status for a word, or UNSPECIFIED if the word is unknown.
func StatusOf(word string) genbusv1.JobStatus {
	for s := range genbusv1.JobStatus_name {
		if status := genbusv1.JobStatus(s); s != 0 && StatusWord(status) == word {
			return status
		}
	}
	return genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED
}

// PhaseOf returns the phase for a word, or UNSPECIFIED if the word is unknown.
func PhaseOf(word string) genbusv1.JobPhase {
	for p := range genbusv1.JobPhase_name {
		if phase := genbusv1.JobPhase(p); p != 0 && PhaseWord(phase) == word {
			return phase
		}
	}
	return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
}

// TerminalWord reports whether a status word means that the job has ended.
func TerminalWord(word string) bool {
	return word == "completed" || word == "failed" || word == "cancelled"
}

// next returns the job's next version, in phase to and with change applied. Only next sets
// versions, phases and statuses.
func next[J Job](job J, to genbusv1.JobPhase, now time.Time, change func(J, *genbusv1.Execution)) (Event, error) {
	from := job.GetExecution().GetPhase()
	if !may(from, to) {
		return Event{}, &TransitionError{JobID: job.GetId(), From: from, To: to}
	}
	out := proto.CloneOf(job)
	x := out.GetExecution()
	x.Phase = to
	if to != submitting {
		x.SubmitUntil = nil
	}
	if to != queued && !Terminal(to) { // a terminal event keeps it, for InQueue
		x.NotBefore = nil
	}
	x.SubmissionOutcomeUnknown = Terminal(to) && OutcomeUnknown(job)
	change(out, x)
	stamp(out, Status(to), job.GetVersion()+1, now)
	return Event{Job: out, Previous: job.GetStatus(), Time: now}, nil
}

func may(from, to genbusv1.JobPhase) bool {
	for _, p := range allowed[from] {
		if p == to {
			return true
		}
	}
	return false
}

// stamp sets the fields that every event changes, for either kind of job.
func stamp(job Job, status genbusv1.JobStatus, version uint64, now time.Time) {
	at := timestamppb.New(now)
	var end *timestamppb.Timestamp
	if Terminal(job.GetExecution().GetPhase()) {
		end = at
	}
	switch j := any(job).(type) {
	case *genbusv1.VideoTask:
		j.Status, j.Version, j.UpdatedAt, j.CompletedAt = status, version, at, end
	case *genbusv1.Chat:
		j.Status, j.Version, j.UpdatedAt, j.CompletedAt = status, version, at, end
	}
}

// setError sets the reason why the job ended.
func setError(job Job, err *genbusv1.TaskError) {
	switch j := any(job).(type) {
	case *genbusv1.VideoTask:
		j.Error = err
	case *genbusv1.Chat:
		j.Error = err
	}
}

// Failed ends a job of either kind. err is required.
func Failed(job Job, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(job, failed, now, func(j Job, _ *genbusv1.Execution) { setError(j, err) })
}

// Cancelled ends a job of either kind on its caller's request.
func Cancelled(job Job, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(job, cancelled, now, func(j Job, _ *genbusv1.Execution) { setError(j, err) })
}

// Kind returns "video" or "chat".
func Kind(job Job) string {
	if _, ok := job.(*genbusv1.Chat); ok {
		return "chat"
	}
	return "video"
}

// FromWork returns the first event of an accepted job. Its time is the time of acceptance, so that
// every writer produces the same event.
func FromWork(item *genbusv1.WorkItem) Event {
	x := &genbusv1.Execution{
		Phase:         queued,
		Route:         item.GetRoute(),
		Fingerprint:   item.GetFingerprint(),
		QueueDeadline: item.GetQueueDeadline(),
		Input:         item.GetBodyRef(),
		Stream:        item.GetStream(),
		Archive:       item.GetArchive(),
		Form:          item.GetForm(),
	}
	x.Traceparent, x.Tracestate = trace(item)
	if item.GetAttached() != nil {
		attach(x, item)
	}
	var job Job
	if item.GetKind() == "chat" {
		job = newChat(item, x)
	} else {
		job = newVideo(item, x)
	}
	return Event{Job: job, Time: item.GetAcceptedAt().AsTime()}
}

// trace returns the W3C trace context of the accepted request, or empty strings.
func trace(item *genbusv1.WorkItem) (parent, state string) {
	return item.GetTrace()["traceparent"], item.GetTrace()["tracestate"]
}

// FailedAtOnce returns the only event of a job that never runs. A single compare-and-set creates
// and ends the job, so no replica can run it in between.
func FailedAtOnce(item *genbusv1.WorkItem, now time.Time, err *genbusv1.TaskError) Event {
	e := FromWork(item)
	e.Job.GetExecution().Phase = failed
	setError(e.Job, err)
	stamp(e.Job, Status(failed), 1, now)
	e.Time = now
	return e
}
