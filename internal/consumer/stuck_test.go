package consumer

import (
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// stuckAfter is the delay after its deadline before a job is checked, and sweepSpread the maximum
// added to it.
const (
	stuckAfter  = time.Minute
	sweepSpread = 500 * time.Millisecond
)

// TestAStrandedJobEnds proves that a started job without a holder and a work item ends.
func TestAStrandedJobEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind  subject.Kind
		phase genbusv1.JobPhase
		code  string
	}{
		"a submitted video":        {subject.Video, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS, "deadline_exceeded"},
		"one that is submitted":    {subject.Video, genbusv1.JobPhase_JOB_PHASE_SUBMITTING, "submission_outcome_unknown"},
		"a chat whose reply comes": {subject.Chat, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS, "deadline_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSlowUpstream(t)
				url, ready := up.url, func() {}
				if c.phase == genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
					url, ready = silent(t)
				}
				e := strand(t, b, url, c.kind, c.phase, ready)
				r := idleReplica(t, b, testConfig(t, url))
				by := e.Job.GetExecution().GetDeadline().AsTime().Add(stuckAfter)
				if again, err := r.sweeper.Check(t.Context(), e.Name(), by.Add(-time.Second)); err != nil || !again.Equal(by) {
					t.Fatalf("before its time: again at %s, %v; want %s", again, err, by)
				}
				if _, err := r.sweeper.Check(t.Context(), e.Name(), by); err != nil {
					t.Fatal(err)
				}
				end := last(follow(t, r.log, e.Job.GetId()))
				if end.Job.GetError().GetCode() != c.code {
					t.Errorf("ended %v with %v", end.Job.GetStatus(), end.Job.GetError())
				}
				doneOnce(t, b, end)
				letters := deadLetters(t, b)
				if c.code != "submission_outcome_unknown" {
					if len(letters) > 0 {
						t.Errorf("dead letters: %v", letters)
					}
					return
				}
				if len(letters) != 1 || letters[0].GetError().GetCode() != c.code || letters[0].GetUpstream() != config.SandboxUpstream || letters[0].GetWork().GetModel() != "sandbox-video" {
					t.Errorf("dead letters: %v", letters)
				}
			})
		})
	}
}

// TestAStrandedJobEndsAfterItsDeadLetter proves that a stuck job does not end before its dead
// letter is stored.
func TestAStrandedJobEndsAfterItsDeadLetter(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	url, begun := silent(t)
	e := strand(t, b, url, subject.Video, genbusv1.JobPhase_JOB_PHASE_SUBMITTING, begun)
	r := idleReplica(t, b, testConfig(t, url))
	by := e.Job.GetExecution().GetDeadline().AsTime().Add(stuckAfter)
	limit(t, b, b.Names().Dead(), 1)
	if _, err := r.sweeper.Check(t.Context(), e.Name(), by); err == nil {
		t.Error("it ended without a dead letter")
	}
	if now, err := r.log.Get(t.Context(), e.Name()); err != nil || now.Terminal() {
		t.Errorf("the log has %v, %v", now.Job.GetError(), err)
	}
	limit(t, b, b.Names().Dead(), -1)
	if _, err := r.sweeper.Check(t.Context(), e.Name(), by); err != nil {
		t.Fatal(err)
	}
	if end := last(follow(t, r.log, e.Job.GetId())); end.Job.GetError().GetCode() != "submission_outcome_unknown" || len(deadLetters(t, b)) != 1 {
		t.Errorf("ended %v", end.Job.GetError())
	}
}

// TestAStrandedJobIsFinishedAgain proves that the sweeper retries the usage and feed copy of a
// stuck job after its end was stored.
func TestAStrandedJobIsFinishedAgain(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, up := open(t), newSlowUpstream(t)
		e := strand(t, b, up.url, subject.Video, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS, func() {})
		r := idleReplica(t, b, testConfig(t, up.url))
		by := e.Job.GetExecution().GetDeadline().AsTime().Add(stuckAfter)
		limit(t, b, b.Names().UsageStream(), 1)
		if _, err := r.sweeper.Check(t.Context(), e.Name(), by); err == nil {
			t.Error("it was finished without its usage")
		}
		if now, err := r.log.Get(t.Context(), e.Name()); err != nil || !now.Terminal() {
			t.Fatalf("the log has %v, %v", now.Job.GetStatus(), err)
		}
		limit(t, b, b.Names().UsageStream(), -1)
		if _, err := r.sweeper.Check(t.Context(), e.Name(), by); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Last(t.Context(), b.Names().UsageStream(), b.Names().Usage(subject.Video, e.Job.GetTenant(), e.Job.GetId())); err != nil {
			t.Errorf("its usage: %v", err)
		}
		doneOnce(t, b, last(follow(t, r.log, e.Job.GetId())))
	})
}

// limit sets a stream's maximum message size; -1 removes the limit.
func limit(t testing.TB, b *broker.Broker, stream string, bytes int32) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	c.MaxMsgSize = bytes
	if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// TestAJobWithAnItemIsNotStranded proves that the sweeper leaves a job with a work item to its
// holder.
func TestAJobWithAnItemIsNotStranded(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	one := newReplica(t, b, testConfig(t, up.url))
	id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "a cat"))
	e := last(follow(t, one.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS))
	late := e.Job.GetExecution().GetDeadline().AsTime().Add(time.Hour)
	if again, err := one.sweeper.Check(t.Context(), e.Name(), late); err != nil || !again.After(late) {
		t.Errorf("again at %s, %v", again, err)
	}
	close(up.done)
	if end := last(follow(t, one.log, id)); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("ended %v", end.Job.GetError())
	}
}

// TestStartedJobsAreLookedForAfterTheirDeadline proves that a replica that starts later knows the
// deadline of a started job.
func TestStartedJobsAreLookedForAfterTheirDeadline(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	// An idle sweeper looks every hour.
	soon := videoRoutes(func(r *config.Route) { r.Timeouts.Deadline = 10 * time.Minute })
	e := strand(t, b, up.url, subject.Video, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS, func() {}, soon)
	r := newReplica(t, b, testConfig(t, up.url))
	by := e.Job.GetExecution().GetDeadline().AsTime().Add(stuckAfter)
	shortly(t, "its deadline is known", func() bool {
		at := r.sweeper.Next()
		return !at.Before(by) && at.Before(by.Add(sweepSpread))
	})
}

// TestAnInlineChatWhoseEndWasDropped proves that the sweeper ends such a chat without a dead
// letter, and with an error that claims only known facts.
func TestAnInlineChatWhoseEndWasDropped(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := idleReplica(t, b, testConfig(t, newSandbox(t).URL()))
	item := recordedItem(t, subject.Chat, "inline")
	e, err := forerunner(t, b).Commit(t.Context(), task.Inline(item, task.Attempt{Upstream: config.SandboxUpstream, Deadline: time.Now()}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.sweeper.Check(t.Context(), e.Name(), time.Now().Add(stuckAfter)); err != nil {
		t.Fatal(err)
	}
	f := last(follow(t, r.log, item.GetId())).Job.GetError()
	if f.GetCode() != "deadline_exceeded" || !strings.Contains(f.GetMessage(), "was not recorded") || strings.Contains(f.GetMessage(), "work item") {
		t.Errorf("ended %v", f)
	}
	if letters := deadLetters(t, b); len(letters) != 0 {
		t.Errorf("dead letters: %v", letters)
	}
}
