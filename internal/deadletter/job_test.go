package deadletter_test

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// TestEndsThatHaveTheirDeadLetter proves that the codes which package task spells out match package
// errcode.
func TestEndsThatHaveTheirDeadLetter(t *testing.T) {
	t.Parallel()
	for _, code := range []errcode.Code{errcode.SubmissionUnknown, errcode.LogLost, errcode.Cancelled, errcode.Expired} {
		job := &genbusv1.VideoTask{Error: &genbusv1.TaskError{Code: string(code)}, Execution: &genbusv1.Execution{SubmissionOutcomeUnknown: true}}
		want := code == errcode.Cancelled || code == errcode.Expired
		if task.LeavesDeadLetter(job) != want {
			t.Errorf("%s leaves a dead letter: %t", code, !want)
		}
	}
}
