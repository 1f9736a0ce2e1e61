package core_test

import (
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestCancelWhileItHolds checks that the condition is evaluated again if the holder writes before
// the compare-and-set.
func TestCancelWhileItHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := subject.JobName{Kind: subject.Video, Tenant: "default", ID: w.CreateVideo()}
	judged := 0
	queued := func(e joblog.Entry) bool {
		is := e.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_QUEUED
		if judged++; judged == 1 {
			w.StartVideo(n.Tenant, n.ID)
		}
		return is
	}
	cancelled, err := w.Core.Jobs.CancelIf(t.Context(), n, queued)
	if err != nil || cancelled || judged != 2 {
		t.Errorf("%t, %v, judged %d times", cancelled, err, judged)
	}
	if e := w.Entry(n.Kind, n.Tenant, n.ID); e.Terminal() {
		t.Errorf("%v", e.Job)
	}
	always := func(joblog.Entry) bool { return true }
	for _, want := range []bool{true, false} {
		if cancelled, err := w.Core.Jobs.CancelIf(t.Context(), n, always); err != nil || cancelled != want {
			t.Errorf("%t, %v", cancelled, err)
		}
	}
	if status, err := w.Core.Jobs.CancelForOperator(t.Context(), n); err != nil || status != genbusv1.JobStatus_JOB_STATUS_CANCELLED {
		t.Errorf("%s, %v", status, err)
	}
}
