package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// load reads the chat, writing its first event where admission did not get to it.
func (j *chatJob) load() (Outcome, bool) {
	if j.entry.Job != nil {
		return j.reload()
	}
	d := j.delivery()
	current, means, err := j.resolve(j.ctx, j.item, d)
	switch {
	case clock.Refuses(err):
		return unjudged(), false
	case err != nil:
		return j.notNow(), false
	case means == tasklog.Removed:
		j.Logger.Info("a chat was erased before it began", j.attrs()...)
		return Drop(), false
	case means == tasklog.Stray:
		return j.stray(), false
	case means == tasklog.Lost:
		return j.lost("it was not called"), false
	case means == tasklog.Unrecorded:
		return j.commit(task.FromWork(j.item), 0)
	case !current.Terminal() && j.taken(current): // while we waited for the log
		return Drop(), false
	case j.heldElsewhere(d, current):
		return j.leaveToHolder(j.attrs()...), false
	}
	return j.begin(current)
}

// reload reads the chat again, which this holder knows.
func (j *chatJob) reload() (Outcome, bool) {
	current, err := j.Log.Get(j.ctx, j.name)
	switch {
	case errors.Is(err, tasklog.ErrNotFound):
		return j.logGone(j.entry.Event), false
	case err != nil:
		return j.notNow(), false
	case !current.Terminal() && !sameRequest(j.item, current):
		return j.stray(), false
	case !current.Terminal() && j.taken(current):
		return Drop(), false
	}
	return j.begin(current)
}

// begin goes on from what the log has.
func (j *chatJob) begin(current tasklog.Entry) (Outcome, bool) {
	j.entry, j.gone = current, doubt{}
	j.attempts.Store(current.Job.GetExecution().GetAttempt())
	if current.Terminal() {
		return j.finish(), false
	}
	j.show(current.Job.GetExecution().GetPhase())
	j.Metrics.Resumed(subject.Chat, task.PhaseWord(current.Job.GetExecution().GetPhase()))
	return Outcome{}, true
}

// stray is the outcome for an item that is not of this chat.
func (j *chatJob) stray() Outcome {
	out := j.doubt.stray(time.Now())
	if out.verb == ack {
		j.Logger.Info("a work item that is not of its job was dropped", j.attrs()...)
	}
	return out
}

// lost ends a chat with its first event, and keeps its request.
func (j *chatJob) lost(so string) Outcome {
	f := fault.New(fault.LogLost, "the log of job %s is gone, so %s", j.name.ID, so)
	if err := j.buryLost(j.ctx, j.item, f); err != nil {
		j.Logger.Error("the dead letter could not be written", j.attrs("error", err)...)
		return j.notNow()
	}
	if out, ok := j.commit(task.FailedAtOnce(j.item, time.Now(), f.TaskError()), 0); !ok {
		return out
	}
	j.Logger.WarnContext(j.ctx, "chat ended", endAttrs(j.entry)...)
	return j.finish()
}

func (j *chatJob) commit(e task.Event, last uint64) (Outcome, bool) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(j.ctx), commitTimeout, errors.New("the commit timed out"))
	defer cancel()
	j.ending.Store(e.Terminal())
	entry, err := j.Log.Commit(ctx, e.By(j.Log.Writer(), j.delivery().count), last)
	var lost *tasklog.LostError
	switch {
	case err == nil:
		j.entry, j.gone = entry, doubt{}
		j.show(entry.Job.GetExecution().GetPhase())
		traceCommit(j.ctx, entry)
		j.attempts.Store(entry.Job.GetExecution().GetAttempt())
		return Outcome{}, true
	case errors.As(err, &lost):
		j.entry = lost.Current
		if lost.Current.Terminal() {
			return j.finish(), false
		}
		if e.Version() == 1 || lost.Current.Job.GetExecution().GetWriter() == j.Log.Writer() {
			return HoldFor(0), false // admission's first event, or an earlier write of ours
		}
		return Drop(), false
	case errors.Is(err, tasklog.ErrNotFound) && last > 0:
		return j.logGone(e), false
	default:
		j.Logger.Warn("commit failed", j.attrs("phase", task.PhaseWord(e.Job.GetExecution().GetPhase()), "error", err)...)
		return HoldFor(retryLog), false
	}
}

// logGone ends a held chat whose log has vanished, unless it was erased after another
// replica had ended it. An end that is in hand is written as it is: a reply is paid for.
func (j *chatJob) logGone(inHand task.Event) Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), commitTimeout)
	defer cancel()
	removed, err := j.Queue.Removed(ctx, j.delivery().seq)
	switch {
	case err != nil:
		return HoldFor(retryLog)
	case removed:
		j.Logger.Info("a held chat was erased", j.attrs()...)
		return Drop()
	}
	switch out := j.gone.stray(time.Now()); {
	case out.verb == hold:
		return out
	case inHand.Terminal():
		return j.endAfter(inHand, 0)
	default:
		return j.lost("what came of it is gone too")
	}
}

func (j *chatJob) finish() Outcome {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(j.ctx), commitTimeout, errors.New("the feed's copy timed out"))
	defer cancel()
	if err := j.Log.Finish(ctx, j.entry); err != nil {
		j.Logger.Warn("the feed of finished jobs could not be written", j.attrs("error", err)...)
		return HoldFor(retryLog)
	}
	return Ack()
}

// end commits a terminal event and finishes.
func (j *chatJob) end(e task.Event, err error) Outcome {
	if err != nil {
		j.Logger.Error("a transition that is not allowed", j.attrs("error", err)...)
		return HoldFor(retryLog)
	}
	for {
		out := j.endAfter(e, j.entry.Seq)
		// A reply is paid for: it is kept and committed again rather than asked
		// for again, as long as the process may work.
		if out.verb != hold || j.entry.Terminal() || broker.Wait(j.working, retryLog) != nil {
			return out
		}
	}
}

// endAfter is end with one try, after the last event that is known.
func (j *chatJob) endAfter(e task.Event, last uint64) Outcome {
	if out, ok := j.commit(e, last); !ok {
		return out
	}
	j.Logger.InfoContext(j.ctx, "chat ended", endAttrs(j.entry)...)
	return j.finish()
}

func (j *chatJob) fail(chunks uint64, f *fault.Error) Outcome {
	e, err := task.FailedChat(j.chat(), time.Now(), chunks, f.TaskError())
	return j.end(e, err)
}
