package core_test

import (
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
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

// TestACancelledJobSaysWhetherItMayCost checks that a refused submission costs nothing, and that one
// with an unknown outcome may.
func TestACancelledJobSaysWhetherItMayCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for submissions, want := range map[int]string{0: "nothing was charged", 1: "nothing was charged", 2: "may still finish it and charge for it"} {
		e, now := w.Entry(subject.Video, "default", w.CreateVideo()), time.Now()
		for range submissions { // the outcome of the first of two is unknown
			next, err := task.Submitting(core.VideoOf(e), now, task.Submission{Upstream: "sandbox", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
			e = w.Commit(e, next, err)
		}
		if submissions > 0 {
			next, err := task.Requeued(core.VideoOf(e), now, now, "429")
			e = w.Commit(e, next, err)
		}
		if e, err := w.Core.Jobs.Cancel(t.Context(), e.Name()); err != nil || !strings.Contains(e.Job.GetError().GetMessage(), want) {
			t.Errorf("after %d submissions: %v, %v", submissions, e.Job.GetError(), err)
		}
	}
}
