package task

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func newVideo(item *genbusv1.WorkItem, x *genbusv1.Execution) *genbusv1.VideoTask {
	return &genbusv1.VideoTask{
		Id: item.GetId(), Tenant: item.GetTenant(), Model: item.GetModel(),
		Status: Status(x.GetPhase()), Version: 1,
		CreatedAt: item.GetAcceptedAt(), UpdatedAt: item.GetAcceptedAt(),
		Labels: item.GetLabels(), RequestId: item.GetRequestId(), RetryOf: item.GetRetryOf(),
		ExpiresAt: item.GetExpiresAt(), Protocol: item.GetProtocol(), Execution: x,
		Size: item.GetSize(), Seconds: item.GetSeconds(),
		UpstreamTaskId: item.GetAttached().GetUpstreamTaskId(),
	}
}

// attach starts a job as submitted, because its upstream already has the task and the upstream key
// is known.
func attach(x *genbusv1.Execution, item *genbusv1.WorkItem) {
	t := item.GetAttached()
	x.Phase, x.FirstSubmitAt, x.Deadline = submitted, item.GetAcceptedAt(), t.GetDeadline()
	x.Upstream, x.UpstreamKey, x.UpstreamTicket = t.GetUpstream(), t.GetUpstreamKey(), t.GetUpstreamTicket()
	x.Attempt, x.Unconfirmed, x.UnconfirmedNamed, x.OwnTaskId = t.GetAttempt(), t.GetCode(), t.GetNamed(), t.GetOwnTaskId()
}

// confirm records that the task of an attached job exists.
func confirm(x *genbusv1.Execution) { x.Unconfirmed, x.UnconfirmedNamed = "", "" }

// Unfound reports whether an attached job ended before any poll had certainly found its task, and
// returns the code of the dead letter that the job was created from.
func Unfound(job Job) (code string, unfound bool) {
	x := job.GetExecution()
	return x.GetUnconfirmed(), x.GetUnconfirmed() != "" && (x.GetPhase() == failed || x.GetPhase() == cancelled)
}

// LeavesDeadLetter reports whether the holder of an ended job must store a dead letter. It must if
// the upstream may have a task with an unknown ID, or if an attached task was never found. It need
// not for the codes below, because their dead letters are stored before the job ends.
func LeavesDeadLetter(job Job) bool {
	if _, unfound := Unfound(job); unfound {
		return true
	}
	switch job.GetError().GetCode() {
	case "submission_outcome_unknown", "log_lost":
		return false
	default:
		return job.GetExecution().GetSubmissionOutcomeUnknown()
	}
}

// OwnID returns the ID by which upstreams that support it can find the task. It includes the time
// of acceptance, because a job's ID may be used again after the job has been erased or its log has
// expired.
func OwnID(t *genbusv1.VideoTask) string {
	return t.GetId() + "-" + strconv.FormatInt(t.GetCreatedAt().AsTime().UnixMicro(), 36)
}

// AcceptedAt returns the time of acceptance in an OwnID, or the zero time if the ID is malformed.
func AcceptedAt(ownID string) time.Time {
	micros, err := strconv.ParseInt(ownID[strings.LastIndex(ownID, "-")+1:], 36, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// Submission holds the values that are fixed before a create request is written.
type Submission struct {
	// Upstream and Key name the destination. The task stays there.
	Upstream, Key string
	// OwnID is the OwnID sent to the upstream, or empty.
	OwnID string
	// Until is when the holder stops writing the request.
	Until time.Time
	// Deadline is when the task fails if it has not ended. Only the first submission sets it.
	Deadline time.Time
}

// Submitting returns the event that is committed before the create request is written. A replica
// that finds a task in this phase does not know whether the upstream has it.
func Submitting(t *genbusv1.VideoTask, now time.Time, s Submission) (Event, error) {
	again := t.GetExecution().GetPhase() == submitting
	return next(t, submitting, now, func(_ *genbusv1.VideoTask, x *genbusv1.Execution) {
		x.Upstream, x.UpstreamKey, x.OwnTaskId = s.Upstream, s.Key, s.OwnID
		// The outcome of the previous submission is unknown.
		x.Bound = x.GetBound() || again
		x.Attempt++
		x.SubmitUntil = timestamppb.New(s.Until)
		if x.GetFirstSubmitAt() == nil {
			x.FirstSubmitAt = timestamppb.New(now)
			x.Deadline = timestamppb.New(s.Deadline)
		}
	})
}

// Requeued returns the event after a submission that the upstream certainly did not accept. The
// refusal stays visible as the upstream's status.
func Requeued(t *genbusv1.VideoTask, now, notBefore time.Time, refusal string) (Event, error) {
	return next(t, queued, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		x.NotBefore = timestamppb.New(notBefore)
		t.UpstreamStatus = refusal
	})
}

// ResetPoisonCount records that a process has handled the job and survived, so that earlier
// deliveries no longer count against the job. It fails while the job is being submitted.
func ResetPoisonCount(t Job, now time.Time) (Event, error) {
	if t.GetExecution().GetPhase() == submitting {
		return Event{}, &TransitionError{JobID: t.GetId(), From: submitting, To: submitting}
	}
	return next(t, t.GetExecution().GetPhase(), now, func(Job, *genbusv1.Execution) {})
}

// Refused ends a task that its upstream certainly did not accept and would refuse again.
func Refused(t *genbusv1.VideoTask, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(t, failed, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.Error, x.SubmissionOutcomeUnknown = err, false
	})
}

// Receipt is an upstream's answer to a submission.
type Receipt struct {
	// UpstreamID names the task at the upstream. Ticket is a further value that some protocols
	// need.
	UpstreamID, Ticket string
	// Status is the upstream's own status word, or empty.
	Status string
	// Size and Seconds are the upstream's values for the video, or empty.
	Size, Seconds string
}

// Submitted records the upstream's ID. From then on any replica can poll the task, and it is never
// submitted again.
func Submitted(t *genbusv1.VideoTask, now time.Time, r Receipt) (Event, error) {
	return next(t, submitted, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.UpstreamTaskId, t.UpstreamStatus = r.UpstreamID, r.Status
		x.UpstreamTicket = r.Ticket
		measured(t, r.Size, r.Seconds)
	})
}

// measured fills in the size and length that the request did not set.
func measured(t *genbusv1.VideoTask, size, seconds string) {
	t.Size, t.Seconds = cmp.Or(t.GetSize(), size), cmp.Or(t.GetSeconds(), seconds)
}

// Observation is the result of polling a running task.
type Observation struct {
	// Started is true if the upstream is working on the task. An unknown status word counts as
	// started.
	Started bool
	// Status is the upstream's own status word.
	Status string
	// Progress is 0 to 100, or negative if the upstream does not report it.
	Progress int
	// Size and Seconds are the upstream's values for the video, or empty.
	Size, Seconds string
}

// progressStep and progressEvery limit the events caused by progress alone.
const (
	progressStep  = 10
	progressEvery = 30 * time.Second
)

// Observed returns the event for an observation, or false if no event is needed. An event is needed
// for each of these:
//   - a change of phase
//   - at least 10 % progress
//   - any progress or a new status word, if the last event is at least 30 s old
//   - the first confirmation that an attached task exists
//
// Phase and progress never go back, but the upstream's latest status word is kept.
func Observed(t *genbusv1.VideoTask, now time.Time, o Observation) (Event, bool, error) {
	to := t.GetExecution().GetPhase()
	if to != submitted && to != inProgress { // the task cannot have been polled
		return Event{}, false, &TransitionError{JobID: t.GetId(), From: to, To: inProgress}
	}
	if o.Started {
		to = inProgress
	}
	progress := max(t.GetProgress(), clampProgress(o.Progress))
	confirms := t.GetExecution().GetUnconfirmed() != ""
	if to == t.GetExecution().GetPhase() && !confirms && !worthwhile(t, now, o.Status, progress) {
		return Event{}, false, nil
	}
	e, err := next(t, to, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.Progress, t.UpstreamStatus = progress, o.Status
		measured(t, o.Size, o.Seconds)
		if confirms {
			confirm(x)
		}
	})
	return e, err == nil, err
}

func worthwhile(t *genbusv1.VideoTask, now time.Time, status string, progress int32) bool {
	moved := progress - t.GetProgress()
	if moved >= progressStep {
		return true
	}
	changed := moved > 0 || status != t.GetUpstreamStatus()
	return changed && now.Sub(t.GetUpdatedAt().AsTime()) >= progressEvery
}

// clampProgress reserves 100 for completed tasks.
func clampProgress(p int) int32 { return int32(min(max(p, 0), 99)) }

// Archiving records that the upstream has finished and that genbus tries to archive the result
// until the given time. err is the error of the latest attempt, or nil.
func Archiving(t *genbusv1.VideoTask, now, until time.Time, upstreamStatus string, err *genbusv1.TaskError) (Event, error) {
	return next(t, inProgress, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.Progress, t.UpstreamStatus = 99, upstreamStatus
		confirm(x)
		x.ArchiveUntil = timestamppb.New(until)
		if err != nil {
			t.Archive = &genbusv1.Archive{Error: err}
		}
	})
}

// Result is the result of a completed task.
type Result struct {
	Videos []*genbusv1.Video
	// Archive describes the copies in the object store. It is nil if there are none.
	Archive        *genbusv1.Archive
	Metadata       []byte // JSON object, or nil
	Usage          *genbusv1.Usage
	UpstreamStatus string
	// Size and Seconds are the upstream's values for the video, or empty.
	Size, Seconds string
}

// Completed ends a task with its result.
func Completed(t *genbusv1.VideoTask, now time.Time, r Result) (Event, error) {
	return next(t, completed, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		confirm(x)
		t.Videos, t.MetadataJson, t.Usage, t.UpstreamStatus = r.Videos, r.Metadata, bounded(r.Usage), r.UpstreamStatus
		t.Progress, t.Archive = 100, r.Archive
		measured(t, r.Size, r.Seconds)
	})
}

// Failure is an upstream's report that a task failed.
type Failure struct {
	// Unknown is true if the upstream may not know the task. The failure then does not confirm that
	// an attached task exists.
	Unknown bool
	// Status is the upstream's own status word.
	Status string
	Usage  *genbusv1.Usage
	Err    *genbusv1.TaskError
}

// FailedUpstream ends a task that failed at the upstream. It records the upstream's status word.
func FailedUpstream(t *genbusv1.VideoTask, now time.Time, f Failure) (Event, error) {
	return next(t, failed, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		if !f.Unknown {
			confirm(x)
		}
		t.UpstreamStatus, t.Usage, t.Error = f.Status, bounded(f.Usage), f.Err
	})
}
