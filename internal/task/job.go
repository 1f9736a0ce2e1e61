// Package task is the state machine of jobs: which transition may follow which,
// and what a job looks like after it. It is pure: no I/O, no clock, no logging;
// the caller gives the time and stores the event.
package task

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Job is what a video task and a chat have in common. *genbusv1.VideoTask and
// *genbusv1.Chat are the two jobs.
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

// Event is one entry of a job's history: the whole job after one transition.
// The job is never changed after the event was first stored: others may read it.
type Event struct {
	Job      Job
	Previous genbusv1.JobStatus
	Time     time.Time
	// Nonce marks the write that stores the event; it is set by that write.
	Nonce string
}

// Version is the event's number in the job's history, from 1.
func (e Event) Version() uint64 { return e.Job.GetVersion() }

// ID is "<job id>.<version>.<nonce>".
func (e Event) ID() string {
	return e.Job.GetId() + "." + strconv.FormatUint(e.Version(), 10) + "." + e.Nonce
}

// By marks a new event, before anyone else sees it, as written by a replica after
// that many deliveries of the job's work item.
func (e Event) By(writer string, deliveries uint64) Event {
	e.Job.GetExecution().Writer = writer
	e.Job.GetExecution().Deliveries = deliveries
	return e
}

// Terminal reports whether the event ends the job.
func (e Event) Terminal() bool { return Terminal(e.Job.GetExecution().GetPhase()) }

// TransitionError says that a transition is not allowed from the job's phase.
type TransitionError struct {
	JobID    string
	From, To genbusv1.JobPhase
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("job %s cannot go from %s to %s", e.JobID, e.From, e.To)
}

// allowed is the table of transitions. Skipping a phase forward is legal where
// the upstream may be faster than our polls; nothing follows a terminal phase.
// Submitting follows submitting only where the route resubmits after an unknown
// outcome, an inline chat starts in progress, a job that is attached to a task of
// its upstream starts submitted, a job that can never run fails with its first
// event, and queued follows queued only where a job has survived its holders, or let go of
// its work item.
// Submitted follows queued where the upstream finds a task whose submission had no known outcome.
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

// Terminal reports whether a phase is the last one.
func Terminal(p genbusv1.JobPhase) bool { return p == completed || p == failed || p == cancelled }

// Status is what clients see of a phase: submitting and submitted are queued.
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

// PhaseWord is the phase in logs and metrics.
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

// StatusWord is the status in subjects, CloudEvents types and HTTP answers:
// queued, in_progress, completed, failed or cancelled; unknown for what this
// version does not know.
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

// StatusOf is the status of a word; UNSPECIFIED for a word that is none.
func StatusOf(word string) genbusv1.JobStatus {
	for s := range genbusv1.JobStatus_name {
		if status := genbusv1.JobStatus(s); s != 0 && StatusWord(status) == word {
			return status
		}
	}
	return genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED
}

// PhaseOf is the phase of a word; UNSPECIFIED for a word that is none.
func PhaseOf(word string) genbusv1.JobPhase {
	for p := range genbusv1.JobPhase_name {
		if phase := genbusv1.JobPhase(p); p != 0 && PhaseWord(phase) == word {
			return phase
		}
	}
	return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
}

// TerminalWord reports whether a status word is that of an ended job.
func TerminalWord(word string) bool {
	return word == "completed" || word == "failed" || word == "cancelled"
}

// next copies the job into its next version in phase to, and lets change fill in
// the rest. It is the only place where a version, a phase or a status is set.
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
	if to != queued && !Terminal(to) { // the end of a job says whether it was in the queue, see InQueue
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

// stamp sets what every event of every kind changes.
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

// setError stores why the job ended.
func setError(job Job, err *genbusv1.TaskError) {
	switch j := any(job).(type) {
	case *genbusv1.VideoTask:
		j.Error = err
	case *genbusv1.Chat:
		j.Error = err
	}
}

// Failed ends a job of either kind. The error is required.
func Failed(job Job, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(job, failed, now, func(j Job, _ *genbusv1.Execution) { setError(j, err) })
}

// Cancelled ends a job of either kind at its caller's wish.
func Cancelled(job Job, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(job, cancelled, now, func(j Job, _ *genbusv1.Execution) { setError(j, err) })
}

// Kind is "video" or "chat".
func Kind(job Job) string {
	if _, ok := job.(*genbusv1.Chat); ok {
		return "chat"
	}
	return "video"
}

// FromWork is the first event of an accepted job. Its time is the moment of
// acceptance, so that every writer writes the same.
func FromWork(item *genbusv1.WorkItem) Event {
	x := &genbusv1.Execution{
		Phase:         queued,
		Route:         item.GetRoute(),
		Fingerprint:   item.GetFingerprint(),
		QueueDeadline: item.GetQueueDeadline(),
		Input:         item.GetBodyRef(),
		Stream:        item.GetStream(),
		Archive:       item.GetArchive(),
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

// trace is the W3C trace context of the accepted request, if it had one.
func trace(item *genbusv1.WorkItem) (parent, state string) {
	return item.GetTrace()["traceparent"], item.GetTrace()["tracestate"]
}

// FailedAtOnce is the only event of a job that is never run: one compare-and-set
// makes it known and ends it, so that no replica can find it in between and run it.
func FailedAtOnce(item *genbusv1.WorkItem, now time.Time, err *genbusv1.TaskError) Event {
	e := FromWork(item)
	e.Job.GetExecution().Phase = failed
	setError(e.Job, err)
	stamp(e.Job, Status(failed), 1, now)
	e.Time = now
	return e
}
