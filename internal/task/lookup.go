package task

import genbusv1 "github.com/genbus/genbus/gen/genbus/v1"

// LookUpText returns a human-readable result of looking up an upstream's task.
func LookUpText(l *genbusv1.LookUp) string {
	switch l.GetResult() {
	case genbusv1.LookUpResult_LOOK_UP_RESULT_FOUND:
		return "the upstream has task " + l.GetUpstreamTaskId()
	case genbusv1.LookUpResult_LOOK_UP_RESULT_NOT_VISIBLE:
		return "the upstream sees no such task now, which does not prove that there is none"
	default:
		return "not known: " + l.GetDetail()
	}
}
