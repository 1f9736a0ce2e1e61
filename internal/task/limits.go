package task

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// maxUsage bounds a usage with its upstream-specific members, in bytes, so that a job's terminal
// event has a bounded size.
const maxUsage = 2 << 10

// bounded returns u, without its upstream-specific members if they are too long.
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

// StartBy returns the time at which a job that was never started fails. That is its expires_at or
// the end of its route's queue timeout, whichever is earlier. limited is false for a job that was
// started or has neither limit.
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

// EndBy returns the time at which a job that was started fails. That is its deadline or the end of
// the time for archiving its result, whichever is later. limited is false for a job that was not
// started or has ended.
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

// InQueue reports whether a job is in the queue, or was in it when it ended. Either no submission
// has started, or the last one was certainly refused. No replica can then have an upstream's answer
// to record.
func InQueue(job Job) bool {
	x := job.GetExecution()
	return x.GetFirstSubmitAt() == nil || x.GetNotBefore() != nil && !x.GetBound()
}

// OutcomeUnknown reports whether the upstream may have a task whose ID is unknown. It returns false
// for a submitted task, which stays bound but whose ID is known.
func OutcomeUnknown(job Job) bool {
	x := job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING || x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && x.GetBound()
}

// Untouched reports whether an unfinished job certainly has no task at an upstream.
func Untouched(job Job) bool {
	x := job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}
