package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// StatusWord gives the word that JSON uses for a status: queued, in_progress,
// completed, failed or cancelled; unknown for what this version does not know.
func StatusWord(status genbusv1.JobStatus) string {
	switch status {
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
