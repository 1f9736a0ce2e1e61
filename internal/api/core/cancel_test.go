package core_test

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestCancelWhileItHolds: its holder writes between the read of the job and the compare-and-set. The
// condition is judged once more by what the holder wrote.
func TestCancelWhileItHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := subject.TaskName{Kind: subject.Video, Tenant: "default", ID: w.CreateVideo()}
	judged := 0
	queued := func(e joblog.Entry) bool {
		is := e.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_QUEUED
		if judged++; judged == 1 {
			w.StartVideo(n.Tenant, n.ID)
		}
		return is
	}
	status, err := w.Core.Jobs.CancelForOperator(t.Context(), n, queued)
	if err != nil || status != genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS || judged != 2 {
		t.Errorf("%s, %v, judged %d times", status, err, judged)
	}
	if e := w.Entry(n.Kind, n.Tenant, n.ID); e.Terminal() {
		t.Errorf("%v", e.Job)
	}
	if status, err := w.Core.Jobs.CancelForOperator(t.Context(), n, core.Always); err != nil || status != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("%s, %v", status, err)
	}
}
