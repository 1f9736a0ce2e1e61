package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// phaseWord returns the name of a phase, or "" if it is unknown.
func phaseWord(phase genbusv1.JobPhase) string {
	if task.Status(phase) == genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED {
		return ""
	}
	return task.PhaseWord(phase)
}
