package body

import (
	"strings"

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

// phaseWord is the log's finer view, empty where nothing is known of it.
func phaseWord(phase genbusv1.JobPhase) string {
	name, known := genbusv1.JobPhase_name[int32(phase)]
	if !known || phase == genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(name, "JOB_PHASE_"))
}
