package task

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

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
