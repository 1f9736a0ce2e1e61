package video

import (
	"errors"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/task"
)

// submittingNow returns the event of a submission that may take a minute.
func submittingNow(t *testing.T, j *job) task.Event {
	t.Helper()
	e, err := task.Submitting(j.task.video(), time.Now(), task.Submission{
		Upstream: config.SandboxUpstream, Until: time.Now().Add(time.Minute), Deadline: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestOnlyOurOwnCommitWasNotSent proves that a job in submitting is free only if the commit is the
// holder's own and was never answered; any other, even of the same process, may have been sent.
func TestOnlyOurOwnCommitWasNotSent(t *testing.T) {
	t.Parallel()
	link, through, direct := jobtest.Linked(t)
	p := newProcess(t, through, "http://127.0.0.1:1")
	held := func(request string) *job {
		item := jobtest.PastItem(request)
		jobtest.PastOf(t, p.Log, item)
		return p.held(t, item)
	}
	j := held("one")
	if _, err := p.Log.Commit(t.Context(), submittingNow(t, j), j.held.Entry().Seq); err != nil {
		t.Fatal(err)
	}
	if err := j.held.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wait *hold.WaitError
	if out := j.submit.takeOver(t.Context()); !errors.As(out, &wait) || wait.Until.Before(j.task.execution().GetSubmitUntil().AsTime()) {
		t.Errorf("the commit of another holder in this process: %v", out)
	}

	j = held("two")
	jobtest.CommitUnconfirmed(t, link, direct, j.held, submittingNow(t, j))
	if err := j.held.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out := j.submit.takeOver(t.Context()); !hold.Waits(out) || j.held.Record.Phase() != genbusv1.JobPhase_JOB_PHASE_QUEUED || j.task.video().GetUpstreamStatus() != "not_sent" {
		t.Errorf("our own commit: %v, %s, %q", out, j.held.Record.Phase(), j.task.video().GetUpstreamStatus())
	}
}
