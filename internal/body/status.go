package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// phaseWord is the log's finer view, empty where nothing is known of it.
func phaseWord(phase genbusv1.JobPhase) string {
	if task.Status(phase) == genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED {
		return ""
	}
	return task.PhaseWord(phase)
}
