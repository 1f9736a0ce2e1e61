package task

import genbusv1 "github.com/genbus/genbus/gen/genbus/v1"

// LookUpText returns a human-readable result of looking up an upstream's task.
func LookUpText(l *genbusv1.LookUp) string {
	switch l.GetResult() {
	case genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND:
		return "the upstream has task " + l.GetUpstreamTaskId()
	case genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE:
		return "the upstream does not find the task now; it may still exist"
	default:
		return "unknown: " + l.GetDetail()
	}
}
