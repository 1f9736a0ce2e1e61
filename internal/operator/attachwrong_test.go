package operator

import (
	"bytes"
	"errors"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// cancel cancels a job, retrying when its holder writes concurrently.
func (r *replica) cancel(e joblog.Entry) {
	r.t.Helper()
	for {
		next, err := task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"})
		if err == nil {
			_, err = r.o.Log.Commit(r.t.Context(), next, e.Seq)
		}
		lost, raced := errors.AsType[*joblog.LostError](err)
		switch {
		case err == nil:
			return
		case !raced:
			r.t.Fatal(err)
		}
		e = lost.Current
	}
}

func (r *replica) attach(l *genbusv1.StoredDeadLetter, taskID string) joblog.Entry {
	r.t.Helper()
	e, err := r.Attach(r.t.Context(), l.GetSequence(), taskID)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// TestAnAttachedJobIsReadFromTheLog checks that a holder reads an attached job from the log even if
// the same process admitted it. Its first step is a poll, which no compare-and-set would stop after
// a cancel.
func TestAnAttachedJobIsReadFromTheLog(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	b := brokertest.Single(t)
	letter := newReplica(t, b, up).start().orphan("o")
	idle := newReplica(t, b, up)
	e := idle.attach(letter, "wrong")
	if _, ok := idle.o.Admission.First(t.Context(), e.Name()); ok {
		t.Error("the holder is told of the job as it was admitted")
	}
	idle.cancel(e)
	idle.unfound(e, letter)
}

// TestAttachWithAWrongID checks that the dead letter returns, and can be attached again, if no poll
// found the task before the job ended.
func TestAttachWithAWrongID(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		r := newReplica(t, open(t), up).start()
		hasty := newReplica(t, open(t), up, func(c *config.Config) {
			for i := range c.Routes {
				if c.Routes[i].Kind == config.KindVideo {
					c.Routes[i].Timeouts.Deadline = time.Second
				}
			}
		})
		unknown := r.unknownDeadLetter(up, "u", videoBody)
		right := ask(t, up, "/v1/video/generations", unknown.GetLetter().GetId(), unknown.GetLetter().GetData())

		e := hasty.attach(unknown, "wrong")
		if end := r.end(e.Name()); end.Job.GetError().GetCode() != string(errcode.DeadlineExceeded) {
			t.Fatalf("ended %v", end.Job.GetError())
		}
		again := r.unfound(e, unknown)

		e = r.attach(again, "wrong")
		r.cancel(e)
		last := r.unfound(e, again)

		e = r.attach(last, right)
		r.checkAttached(e, last.GetLetter(), right)
		if left := r.deadLetters(Query{Size: 100}); len(left) != 0 {
			t.Errorf("dead letters are left: %v", left)
		}
	})
}

// unfound waits for the dead letter of an ended attached job and checks that it equals the previous
// one.
func (r *replica) unfound(e joblog.Entry, before *genbusv1.StoredDeadLetter) *genbusv1.StoredDeadLetter {
	r.t.Helper()
	await(r.t, "the dead letter", func() bool { return len(r.deadLetters(Query{Size: 100})) > 0 })
	l := r.deadLetterOf(e.Job.GetId())
	was, is := before.GetLetter(), l.GetLetter()
	if is.GetError().GetCode() != was.GetError().GetCode() || is.GetUpstreamTaskId() != was.GetUpstreamTaskId() || is.GetUpstream() != was.GetUpstream() ||
		is.GetAttempt() != was.GetAttempt() || !bytes.Equal(is.GetData(), was.GetData()) || is.GetWork().GetLabels()["team"] != "a" {
		r.t.Errorf("the dead letter was %v and is %v", was, is)
	}
	return l
}

// TestRedriveAfterAttach checks that an attached dead letter cannot be redriven, and that the one
// that returns for an unfound task is redriven with one create.
func TestRedriveAfterAttach(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up).start()
	unknown := r.unknownDeadLetter(up, "u", videoBody)
	e := r.attach(unknown, "wrong")
	for _, taskID := range []string{"", "wrong", "another"} {
		if _, err := r.Attach(t.Context(), unknown.GetSequence(), taskID); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
			t.Errorf("attached again to %q: %v", taskID, err)
		}
	}
	if _, err := r.Redrive(t.Context(), unknown.GetSequence()); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
		t.Errorf("redriven after it was attached: %v", err)
	}
	r.cancel(e)
	again := r.unfound(e, unknown)
	before := up.Sandbox.Stats().Creates
	redriven, err := r.Redrive(t.Context(), again.GetSequence())
	if err != nil {
		t.Fatal(err)
	}
	if end := r.end(redriven.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || videoOf(end).GetRetryOf() != e.Job.GetId() {
		t.Errorf("%s ended %v, and repeats %s, want %s", redriven.Job.GetId(), end.Job.GetStatus(), videoOf(end).GetRetryOf(), e.Job.GetId())
	}
	if creates := up.Sandbox.Stats().Creates - before; creates != 1 {
		t.Errorf("%d creates", creates)
	}
	if _, err := r.Attach(t.Context(), again.GetSequence(), "another"); errcode.CodeOf(err) != errcode.DeadLetterNotFound {
		t.Errorf("attached after it was redriven: %v", err)
	}
}

// TestAttachedAndFound checks that a dead letter keeps its task id after a wrong one was attached,
// and that a job whose task was found leaves no dead letter when it is cancelled.
func TestAttachedAndFound(t *testing.T) {
	t.Parallel()
	up := newSandbox(t)
	r := newReplica(t, brokertest.Single(t), up).start()
	orphan := r.orphan("o")
	e := r.attach(orphan, "wrong")
	r.cancel(e)
	orphan = r.unfound(e, orphan)

	other := r.admit(subject.Video, "slow", `{"model":"sandbox-video:duration_ms=600000","prompt":"a cat"}`)
	slow := videoOf(r.until(other.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTED)).GetUpstreamTaskId()
	e = r.attach(orphan, slow)
	await(t, "a poll that finds the task", func() bool {
		e = logEntry(r, e.Job.GetId())
		return e.Job.GetExecution().GetUnconfirmed() == ""
	})
	r.cancel(e)
	if err := r.o.Queue.Items.AwaitRemoved(t.Context(), e.Name(), patience); err != nil {
		t.Fatal(err)
	}
	if left := r.deadLetters(Query{Size: 100}); len(left) != 0 {
		t.Errorf("dead letters are left: %v", left)
	}
}
