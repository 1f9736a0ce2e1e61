package task

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// maxUsage is the size up to which an event carries what its upstream says about the cost
// beyond the numbers, in bytes: the end of a job has a bounded size.
const maxUsage = 2 << 10

// bounded is u without the members that only the upstream knows, where they are too long.
func bounded(u *genbusv1.Usage) *genbusv1.Usage {
	if proto.Size(u) <= maxUsage {
		return u
	}
	out := proto.CloneOf(u)
	out.ExtraJson = nil
	if d := out.GetPromptTokensDetails(); d != nil {
		d.ExtraJson = nil
	}
	if d := out.GetCompletionTokensDetails(); d != nil {
		d.ExtraJson = nil
	}
	return out
}

// StartBy is when a job that was never started fails: at its caller's limit or at
// the end of its route's queue timeout, whichever comes first. It is false for a job
// that was started, and for one without a limit.
func StartBy(job Job) (by time.Time, limited bool) {
	x := job.GetExecution()
	if x.GetPhase() != queued || x.GetFirstSubmitAt() != nil {
		return time.Time{}, false
	}
	for _, limit := range []*timestamppb.Timestamp{job.GetExpiresAt(), x.GetQueueDeadline()} {
		if limit != nil && (!limited || limit.AsTime().Before(by)) {
			by, limited = limit.AsTime(), true
		}
	}
	return by, limited
}

// EndBy is when a job that was started fails, by its deadline, or by the time for the
// copy of its result, which begins before that. It is false for a job that was not
// started, or has ended.
func EndBy(job Job) (by time.Time, limited bool) {
	x := job.GetExecution()
	if Terminal(x.GetPhase()) || x.GetDeadline() == nil {
		return time.Time{}, false
	}
	by = x.GetDeadline().AsTime()
	if copied := x.GetArchiveUntil(); copied != nil && copied.AsTime().After(by) {
		by = copied.AsTime()
	}
	return by, true
}

// InQueue reports whether a job is in the queue, or was there when it ended: no submission
// of it has begun, or the last one was certainly refused, so that no replica has an answer of
// an upstream to record.
func InQueue(job Job) bool {
	x := job.GetExecution()
	return x.GetFirstSubmitAt() == nil || x.GetNotBefore() != nil && !x.GetBound()
}

// OutcomeUnknown reports whether the upstream may have a task without anyone knowing it. A
// task stays bound once it is submitted, and its id is known then.
func OutcomeUnknown(job Job) bool {
	x := job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING || x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && x.GetBound()
}

// Untouched reports whether nothing of a job that has not ended can be at an upstream.
func Untouched(job Job) bool {
	x := job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}
