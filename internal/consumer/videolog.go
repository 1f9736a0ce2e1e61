package consumer

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// retryLog is the wait after the log could not be read or written.
	retryLog = time.Second
	// commitTimeout bounds one commit; the step is taken again after it.
	commitTimeout = 30 * time.Second
	// maxDeliveries is how often a job may be delivered without any progress.
	maxDeliveries = 10
)

// load reads the task, writing its first event where admission did not get to it. It
// reports false with an outcome when the job cannot go on from there.
func (j *videoJob) load(ctx context.Context) (Outcome, bool) {
	if j.entry.Job != nil {
		return j.reload(ctx)
	}
	d := j.delivery()
	current, means, err := j.resolve(ctx, j.item, d)
	switch {
	case clock.Refuses(err):
		return j.unjudged(), false
	case err != nil:
		j.confirmLater()
		return HoldFor(retryLog), false
	case means == tasklog.Removed:
		j.Logger.Info("a task was erased before it began", j.attrs()...)
		return Drop(), false
	case means == tasklog.Stray:
		return j.stray(), false
	case means == tasklog.Lost:
		return j.lost(ctx), false
	case means == tasklog.Unrecorded:
		return j.commit(ctx, task.FromWork(j.item), 0)
	}
	if out, ok := j.adopt(ctx, current); !ok {
		return out, false
	}
	if j.heldElsewhere(d, current) {
		return j.leaveToHolder(j.attrs()...), false
	}
	j.Metrics.Resumed(subject.Video, task.PhaseWord(j.phase()))
	return j.checkPoison(ctx)
}

// reload reads the task again, which this holder knows.
func (j *videoJob) reload(ctx context.Context) (Outcome, bool) {
	current, err := j.Log.Get(ctx, j.name)
	switch {
	case errors.Is(err, tasklog.ErrNotFound):
		return j.logGone(ctx), false
	case err != nil:
		j.confirmLater()
		return HoldFor(retryLog), false
	}
	return j.adopt(ctx, current)
}

func (j *videoJob) delivery() delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.msg
}

func (j *videoJob) confirmLater() {
	j.mu.Lock()
	j.stale = true
	j.mu.Unlock()
}

// adopt goes on from what the leader has. Another replica's event in a job that
// we had begun with means that the job is no longer ours.
func (j *videoJob) adopt(ctx context.Context, current tasklog.Entry) (Outcome, bool) {
	known := j.entry
	j.entry, j.confirmed = current, time.Now()
	switch {
	case known.Job != nil && !sameJob(known, current):
		j.entry = known
		return Drop(), false
	case current.Terminal():
		return j.finish(ctx), false
	case known.Job == nil && !sameRequest(j.item, current):
		j.entry = known
		return j.stray(), false
	case known.Job != nil && current.Version() > known.Version() && current.Job.GetExecution().GetWriter() != j.Log.Writer():
		return Drop(), false
	default:
		return Outcome{}, true
	}
}

// stray is the outcome for an item that is not of this job.
func (j *videoJob) stray() Outcome {
	out := j.doubt.stray(time.Now())
	if out.verb == ack {
		j.Logger.Info("a work item that is not of its job was dropped", j.attrs()...)
	}
	return out
}

// sameJob tells a job from one that was made under its id after it was erased.
func sameJob(a, b tasklog.Entry) bool {
	return a.Job.GetCreatedAt().AsTime().Equal(b.Job.GetCreatedAt().AsTime()) && b.Version() >= a.Version()
}

// lost ends a job with its first event. Its request is kept: the letter is all that
// is left of it.
func (j *videoJob) lost(ctx context.Context) Outcome {
	f := fault.New(fault.LogLost, "the log of job %s is gone, so it was not submitted", j.name.ID)
	if err := j.buryLost(ctx, j.item, f); err != nil {
		j.Logger.Error("the dead letter could not be written", j.attrs("error", err)...)
		j.confirmLater()
		return HoldFor(retryLog)
	}
	if out, ok := j.commit(ctx, task.FailedAtOnce(j.item, time.Now(), f.TaskError()), 0); !ok {
		return out
	}
	j.Logger.WarnContext(ctx, "video task ended", endAttrs(j.entry)...)
	return j.finish(ctx)
}

// logGone ends a held task whose log has vanished. It knows the task's last state
// and writes that, so that nobody takes the work item for a new job.
func (j *videoJob) logGone(ctx context.Context) Outcome {
	if out, ok := j.stillWanted(ctx); !ok {
		return out
	}
	j.Logger.Error("the log of a held task is gone", j.attrs(telemetry.KeyUpstreamID, j.video().GetUpstreamTaskId())...)
	f := fault.New(fault.LogLost, "the log of job %s is gone; its upstream id was %q", j.name.ID, j.video().GetUpstreamTaskId())
	if out, ok := j.bury(ctx, f); !ok {
		return out
	}
	e, err := task.Failed(j.entry.Job, time.Now(), f.TaskError())
	if err != nil {
		return HoldFor(retryLog)
	}
	if out, ok := j.commit(ctx, e, 0); !ok {
		return out
	}
	return j.finish(ctx)
}

// stillWanted reports whether a task without a log was not erased: its work item would
// have been removed first.
func (j *videoJob) stillWanted(ctx context.Context) (Outcome, bool) {
	removed, err := j.Queue.Removed(ctx, j.delivery().seq)
	switch {
	case err != nil:
		j.confirmLater()
		return HoldFor(retryLog), false
	case removed:
		j.Logger.Info("a held task was erased", j.attrs(telemetry.KeyUpstreamID, j.video().GetUpstreamTaskId())...)
		return Drop(), false
	}
	return Outcome{}, true
}

// commit stores an event after the last one that we know. It reports false with
// an outcome when the job cannot go on.
func (j *videoJob) commit(ctx context.Context, e task.Event, last uint64) (Outcome, bool) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), commitTimeout, errors.New("the commit timed out"))
	defer cancel()
	j.mu.Lock()
	e = e.By(j.Log.Writer(), j.msg.count)
	j.mu.Unlock()
	entry, err := j.Log.Commit(ctx, e, last)
	var lost *tasklog.LostError
	switch {
	case err == nil:
		j.entry, j.confirmed = entry, time.Now()
		traceCommit(ctx, entry)
		return Outcome{}, true
	case errors.As(err, &lost):
		out, ok := j.adopt(ctx, lost.Current)
		if ok { // an earlier write of ours that we had given up on
			out = HoldFor(0)
		}
		return out, false
	case errors.Is(err, tasklog.ErrNotFound) && last > 0:
		return j.logGone(ctx), false
	default:
		if errors.Is(err, tasklog.ErrUncertain) && e.Job.GetExecution().GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			j.unsent = append(j.unsent, entry.Nonce)
		}
		j.Logger.Warn("commit failed", j.attrs("phase", task.PhaseWord(e.Job.GetExecution().GetPhase()), "error", err)...)
		j.confirmLater()
		return HoldFor(retryLog), false
	}
}

// commitNext is commit for a transition constructor's result.
func (j *videoJob) commitNext(ctx context.Context, e task.Event, err error) (Outcome, bool) {
	if err != nil {
		j.Logger.Error("a transition that is not allowed", j.attrs("error", err)...)
		j.confirmLater()
		return HoldFor(retryLog), false
	}
	return j.commit(ctx, e, j.entry.Seq)
}

// finish makes sure that the feed of finished jobs has the end, and that there is a
// letter of an attached task that was never found, and only then lets the message go.
func (j *videoJob) finish(ctx context.Context) Outcome {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), commitTimeout, errors.New("the dead letter and the feed's copy timed out"))
	defer cancel()
	j.discardCopies(ctx)
	j.discardInherited(ctx)
	if j.item == nil || sameRequest(j.item, j.entry) { // a stray's letter is not this job's
		if out, ok := j.buryUnfound(ctx); !ok {
			return out
		}
	}
	if err := j.Log.Finish(ctx, j.entry); err != nil {
		j.Logger.Warn("the feed of finished jobs could not be written", j.attrs("error", err)...)
		j.confirmLater()
		return HoldFor(retryLog)
	}
	return Ack()
}

// end commits a terminal event and finishes.
func (j *videoJob) end(ctx context.Context, e task.Event, err error) Outcome {
	if out, ok := j.commitNext(ctx, e, err); !ok {
		return out
	}
	j.Logger.Log(ctx, endLevel(j.buried || unfound(j.entry.Job)), "video task ended", endAttrs(j.entry)...)
	return j.finish(ctx)
}

// fail ends the task with an error.
func (j *videoJob) fail(ctx context.Context, f *fault.Error) Outcome {
	e, err := task.Failed(j.entry.Job, time.Now(), f.TaskError())
	return j.end(ctx, e, err)
}

// unjudged gives the task to a replica with a right clock. One that was delivered so
// often that it seems to kill its holders stays: to give it back would add to that.
func (j *videoJob) unjudged() Outcome {
	if j.tainted {
		return HoldFor(fetchWait)
	}
	return unjudged()
}

// checkPoison ends a task that was delivered again and again without any
// progress: it may be what kills the processes that take it. Where nobody knows
// whether its upstream has it, that is what the end says: redriving it may pay twice.
func (j *videoJob) checkPoison(ctx context.Context) (Outcome, bool) {
	j.mu.Lock()
	count := j.msg.count
	j.mu.Unlock()
	since := j.entry.Job.GetExecution().GetDeliveries()
	j.tainted = count > since+maxDeliveries/2
	if count <= since+maxDeliveries {
		return Outcome{}, true
	}
	err := fault.New(fault.Poisoned, "job %s was delivered %d times without any progress", j.name.ID, count-since)
	if outcomeUnknown(j.entry.Job) {
		return j.endUnknown(ctx, err), false
	}
	if out, ok := j.bury(ctx, err); !ok {
		return out, false
	}
	return j.fail(ctx, err), false
}

// clear records that a step with a task whose holders have died often is over, and
// that its holder lives: they died of something else. A crash of many processes
// must not end the tasks that they held.
func (j *videoJob) clear(held Outcome) Outcome {
	e, err := task.Survived(j.video(), time.Now())
	if err != nil { // it is being submitted, which is progress
		return held
	}
	release, ok := j.Log.RoomForProgress(j.ctx, e)
	if !ok {
		return held
	}
	defer release()
	if out, ok := j.commitNext(j.ctx, e, nil); !ok {
		return out
	}
	j.tainted = false
	return held
}
