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

// attach makes the first phase that of a task which its upstream has already:
// there is nothing to submit, and its upstream key is known.
func attach(x *genbusv1.Execution, item *genbusv1.WorkItem) {
	t := item.GetAttached()
	x.Phase, x.FirstSubmitAt, x.Deadline = submitted, item.GetAcceptedAt(), t.GetDeadline()
	x.Upstream, x.UpstreamKey, x.UpstreamTicket = t.GetUpstream(), t.GetUpstreamKey(), t.GetUpstreamTicket()
	x.Attempt, x.Unconfirmed, x.UnconfirmedNamed, x.OwnTaskId = t.GetAttempt(), t.GetCode(), t.GetNamed(), t.GetOwnTaskId()
}

// confirm says that the task of an attached job is there.
func confirm(x *genbusv1.Execution) { x.Unconfirmed, x.UnconfirmedNamed = "", "" }

// Unfound reports whether a job that was attached to a task of its upstream has
// ended before any poll had certainly found that task, and gives the code of the
// dead letter that the job was made of.
func Unfound(job Job) (code string, unfound bool) {
	x := job.GetExecution()
	return x.GetUnconfirmed(), x.GetUnconfirmed() != "" && (x.GetPhase() == failed || x.GetPhase() == cancelled)
}

// LeavesDeadLetter reports whether the end of a job leaves a dead letter that its holder stores: its
// upstream may have a task that nobody knows, or an attached task was never found. Who ends a job
// with one of the codes below has stored its letter before.
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

// OwnID is the ID that names a task to upstreams that take a name of ours. It has the time of
// acceptance, as a job may come again under its id: after it was erased, or its log has expired.
func OwnID(t *genbusv1.VideoTask) string {
	return t.GetId() + "-" + strconv.FormatInt(t.GetCreatedAt().AsTime().UnixMicro(), 36)
}

// AcceptedAt is the time of acceptance in an OwnID; zero where it is none.
func AcceptedAt(ownID string) time.Time {
	micros, err := strconv.ParseInt(ownID[strings.LastIndex(ownID, "-")+1:], 36, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// Submission is what is fixed before a create request is written.
type Submission struct {
	// Upstream and Key name where the request goes; the task stays with them.
	Upstream, Key string
	// OwnID is the ID of ours that names the task to the upstream; empty for none.
	OwnID string
	// Until is when the holder stops writing the request.
	Until time.Time
	// Deadline is when the task fails; used at the first submission only.
	Deadline time.Time
}

// Submitting is committed before the create request is written: a replica that finds
// the task in this phase does not know whether the upstream has it.
func Submitting(t *genbusv1.VideoTask, now time.Time, s Submission) (Event, error) {
	again := t.GetExecution().GetPhase() == submitting
	return next(t, submitting, now, func(_ *genbusv1.VideoTask, x *genbusv1.Execution) {
		x.Upstream, x.UpstreamKey, x.OwnTaskId = s.Upstream, s.Key, s.OwnID
		// From submitting to submitting the outcome of the first is not known.
		x.Bound = x.GetBound() || again
		x.Attempt++
		x.SubmitUntil = timestamppb.New(s.Until)
		if x.GetFirstSubmitAt() == nil {
			x.FirstSubmitAt = timestamppb.New(now)
			x.Deadline = timestamppb.New(s.Deadline)
		}
	})
}

// Requeued follows a submission that the upstream certainly did not accept. The
// refusal stays visible as the upstream's status.
func Requeued(t *genbusv1.VideoTask, now, notBefore time.Time, refusal string) (Event, error) {
	return next(t, queued, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		x.NotBefore = timestamppb.New(notBefore)
		t.UpstreamStatus = refusal
	})
}

// ResetPoisonCount says that a process has handled the
// task and lives, so that the deliveries before it do not count against the task.
// A task that is being submitted is not free to say so.
func ResetPoisonCount(t Job, now time.Time) (Event, error) {
	if t.GetExecution().GetPhase() == submitting {
		return Event{}, &TransitionError{JobID: t.GetId(), From: submitting, To: submitting}
	}
	return next(t, t.GetExecution().GetPhase(), now, func(Job, *genbusv1.Execution) {})
}

// Refused ends a task that its upstream certainly did not accept, and would refuse again.
func Refused(t *genbusv1.VideoTask, now time.Time, err *genbusv1.TaskError) (Event, error) {
	return next(t, failed, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.Error, x.SubmissionOutcomeUnknown = err, false
	})
}

// Receipt is what an upstream gave for a submission.
type Receipt struct {
	// UpstreamID names the task at the upstream, and Ticket is what its protocol
	// needs with it.
	UpstreamID, Ticket string
	// Status is the upstream's own word, or empty.
	Status string
	// Size and Seconds are what the upstream says of the video, or empty.
	Size, Seconds string
}

// Submitted records the upstream's id: from here on the task can be polled by
// any replica and is never submitted again.
func Submitted(t *genbusv1.VideoTask, now time.Time, r Receipt) (Event, error) {
	return next(t, submitted, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		t.UpstreamTaskId, t.UpstreamStatus = r.UpstreamID, r.Status
		x.UpstreamTicket = r.Ticket
		measured(t, r.Size, r.Seconds)
	})
}

// measured keeps what the upstream says of the size and the length that the request left
// to it.
func measured(t *genbusv1.VideoTask, size, seconds string) {
	t.Size, t.Seconds = cmp.Or(t.GetSize(), size), cmp.Or(t.GetSeconds(), seconds)
}

// Observation is what a poll says of a task that still runs.
type Observation struct {
	// Unknown is true when the upstream answers that it knows no such task, or not
	// yet.
	Unknown bool
	// Started is true when the upstream says that it works on the task; a word
	// that genbus does not know means that too.
	Started bool
	// Status is the upstream's own word.
	Status string
	// Progress is 0 to 100, or negative when the upstream does not say.
	Progress int
	// Size and Seconds are what the upstream says of the video, or empty.
	Size, Seconds string
}

// progressStep and progressEvery bound the events that progress alone causes.
const (
	progressStep  = 10
	progressEvery = 30 * time.Second
)

// Observed is the event that an observation is worth, and false when it is worth
// none: an event is a change of phase, progress of at least 10 %, any progress or
// new word of the upstream after 30 s, or the first that confirms that an attached
// task is there. A status that would go back is only kept as the upstream's word,
// and progress never goes back.
func Observed(t *genbusv1.VideoTask, now time.Time, o Observation) (Event, bool, error) {
	to := t.GetExecution().GetPhase()
	if to != submitted && to != inProgress { // it cannot have been polled
		return Event{}, false, &TransitionError{JobID: t.GetId(), From: to, To: inProgress}
	}
	if o.Started {
		to = inProgress
	}
	progress := max(t.GetProgress(), clampProgress(o.Progress))
	confirms := !o.Unknown && t.GetExecution().GetUnconfirmed() != ""
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

// clampProgress keeps 100 for the completed task.
func clampProgress(p int) int32 { return int32(min(max(p, 0), 99)) }

// Archiving says that the upstream has finished, and that its result is being
// copied until the given moment. err is why the latest try failed, or nil.
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

// Result is what a completed task has.
type Result struct {
	Videos []*genbusv1.Video
	// Archive is what the object store has of it; nil for nothing.
	Archive        *genbusv1.Archive
	Metadata       []byte // JSON object, or nil
	Usage          *genbusv1.Usage
	UpstreamStatus string
	// Size and Seconds are what the upstream says of the video, or empty.
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

// Failure is what an upstream says of a task that it gave up.
type Failure struct {
	// Unknown is true when the upstream may know no such task: an attached one is
	// then not confirmed by its end.
	Unknown bool
	// Status is the upstream's own word.
	Status string
	Usage  *genbusv1.Usage
	Err    *genbusv1.TaskError
}

// FailedUpstream ends a task that the upstream gave up, with its own word.
func FailedUpstream(t *genbusv1.VideoTask, now time.Time, f Failure) (Event, error) {
	return next(t, failed, now, func(t *genbusv1.VideoTask, x *genbusv1.Execution) {
		if !f.Unknown {
			confirm(x)
		}
		t.UpstreamStatus, t.Usage, t.Error = f.Status, bounded(f.Usage), f.Err
	})
}
