package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Commit stores an event after the last one that we know. It returns nil when the event
// is stored and the job goes on.
func (j *Job) Commit(ctx context.Context, e task.Event, last uint64) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), CommitTimeout, errors.New("the commit timed out"))
	defer cancel()
	j.ending.Store(e.Terminal())
	entry, err := j.holder.Log.Commit(ctx, e.By(j.holder.Log.Writer(), j.message.delivery().Count), last)
	var lost *joblog.LostError
	switch {
	case err == nil:
		j.unheard = nil
		j.set(entry)
		j.traceCommit(entry)
		return nil
	case errors.As(err, &lost) && e.Terminal() && j.isBegunAgain(lost.Current):
		return j.Commit(ctx, e, lost.Current.Seq) // what an end says is paid for
	case errors.As(err, &lost):
		return j.afterLost(lost.Current)
	case errors.Is(err, joblog.ErrNotFound) && last > 0:
		return j.gone(ctx, e)
	case errors.Is(err, joblog.ErrUncertain):
		j.unheard = append(j.unheard, entry.Nonce)
	}
	return fmt.Errorf("commit %s: %w", task.PhaseWord(e.Job.GetExecution().GetPhase()), err)
}

// afterLost goes on after a commit that was not the first: from admission's first event, or
// from an earlier write of ours that we had given up on.
func (j *Job) afterLost(current joblog.Entry) error {
	known := j.entry
	if err := j.adopt(current); err != nil {
		return err
	}
	ours := current.Job.GetExecution().GetWriter() == j.holder.Log.Writer()
	if known.Job != nil && !ours && current.Nonce != known.Nonce {
		return ErrNotOurs // the log had vanished, and another replica has come as far as this one
	}
	return For(0)
}

// isBegunAgain reports whether the log of this job had vanished, and has the job's first
// event again, which any reader of the work item may have written.
func (j *Job) isBegunAgain(current joblog.Entry) bool {
	return j.entry.Job != nil && current.Version() == 1 && !current.Terminal() && current.Version() < j.entry.Version() &&
		current.Job.GetCreatedAt().AsTime().Equal(j.entry.Job.GetCreatedAt().AsTime())
}

// Next is Commit for the result of a transition's constructor. A transition that is not
// allowed is an error of ours.
func (j *Job) Next(ctx context.Context, e task.Event, err error) error {
	if err != nil {
		return err
	}
	return j.Commit(ctx, e, j.entry.Seq)
}

// Persist commits what is paid for, again and again while the log does not answer:
// forgotten, it would be paid for again, or be unknown. next makes the event of each try.
// It gives up where the job is found in another phase. After a terminal event it returns
// ErrEnded.
func (j *Job) Persist(ctx context.Context, next func() (task.Event, error)) error {
	from := j.Phase()
	for {
		e, err := next()
		if err != nil {
			return err
		}
		switch err = j.Commit(ctx, e, j.entry.Seq); {
		case err == nil && e.Terminal():
			j.LogEnd()
			return ErrEnded
		case err == nil, final(err), j.Phase() != from:
			return err
		}
		j.Logger().Warn("what is known of a job is not stored yet; this is repeated", telemetry.KeyError, err)
		if broker.Wait(j.holder.Working, Retry) != nil {
			return Return()
		}
	}
}

// final reports whether an outcome lets go of the job.
func final(outcome error) bool {
	_, returned := errors.AsType[*ReturnError](outcome)
	return returned || errors.Is(outcome, ErrEnded) || errors.Is(outcome, ErrNotOurs) || errors.Is(outcome, ErrStale)
}

// End commits a terminal event, and returns ErrEnded.
func (j *Job) End(ctx context.Context, e task.Event, err error) error {
	if err != nil {
		return err
	}
	return j.endAt(ctx, e, j.entry.Seq)
}

func (j *Job) endAt(ctx context.Context, e task.Event, last uint64) error {
	if err := j.Commit(ctx, e, last); err != nil {
		return err
	}
	j.LogEnd()
	return ErrEnded
}

// LogEnd logs the job's end, louder where a dead letter is somebody's to look at.
func (j *Job) LogEnd() {
	level := slog.LevelInfo
	if _, unfound := task.Unfound(j.entry.Job); j.buried || unfound {
		level = slog.LevelWarn
	}
	j.holder.Logger.Log(j.ctx, level, "job ended", EndAttrs(j.entry)...)
}

// EndAttrs are what a log record says of a job's end.
func EndAttrs(e joblog.Entry) []any {
	return Attrs(e.Name(), e.Job.GetExecution().GetRoute(), "status", task.StatusWord(e.Job.GetStatus()), "code", e.Job.GetError().GetCode())
}

// Conclude says what becomes of the message after a step: it finishes a job that has
// ended, and a step that failed is tried again. nil acknowledges the message.
func (j *Job) Conclude(step error, finish func() error) error {
	if errors.Is(step, ErrEnded) {
		if step = finish(); step == nil {
			return nil
		}
	}
	if step != nil && (final(step) || Waits(step)) {
		return step
	}
	j.reread = true // also after the end: the job may be erased before it is finished
	level := slog.LevelWarn
	if _, wrong := errors.AsType[*task.TransitionError](step); wrong || errors.Is(step, errLetter) {
		level = slog.LevelError
	}
	if j.holder.Working.Err() == nil {
		j.Logger().Log(j.ctx, level, "a step of a job failed; it is repeated", telemetry.KeyError, step)
	}
	return For(Retry)
}

// RoomForSubmission reports whether the log has room for all that a submission may bring.
// A job that has none is held, not failed: events that reach their age make room.
func (j *Job) RoomForSubmission(ctx context.Context) (joblog.Release, bool) {
	release, ok := j.holder.Log.RoomForSubmission(ctx, j.entry.Job)
	if !ok {
		j.holder.Metrics.SubmissionHeld(j.name.Kind)
		j.Logger().Debug("a submission waits for room in the task log")
	}
	return release, ok
}

// Finish makes sure that the feed of finished jobs has the end, and that there is a letter
// of an attached task that was never found. Only then may the message be acknowledged.
func (j *Job) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), CommitTimeout, errors.New("the dead letter and the feed copy timed out"))
	defer cancel()
	if j.item == nil || j.sameRequest(j.entry) { // a stale item's letter is not this job's
		if err := j.buryUnfound(ctx); err != nil {
			return err
		}
	}
	if err := j.holder.Log.Finish(ctx, j.entry); err != nil {
		return fmt.Errorf("write the feed copy: %w", err)
	}
	return nil
}
