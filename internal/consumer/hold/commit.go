package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Next commits the result of a transition constructor. A non-nil err means a forbidden transition,
// which is a bug.
func (j *Job) Next(ctx context.Context, e task.Event, err error) error {
	if err != nil {
		return err
	}
	return j.Commit(ctx, e, j.Record.last().Seq)
}

// Persist commits a result that was paid for, and retries while the log does not answer: a lost
// result would be paid for again or stay unknown. next makes the event of each attempt. Persist
// gives up if the job turns out to be in another phase. After a terminal event it returns ErrEnded.
func (j *Job) Persist(ctx context.Context, next func() (task.Event, error)) error {
	return j.persist(ctx, next, func(error) bool { return false })
}

// PersistFitting is like Persist but returns broker.ErrTooLarge at once, so that the caller can
// make the event smaller.
func (j *Job) PersistFitting(ctx context.Context, next func() (task.Event, error)) error {
	return j.persist(ctx, next, func(err error) bool { return errors.Is(err, broker.ErrTooLarge) })
}

func (j *Job) persist(ctx context.Context, next func() (task.Event, error), giveUp func(error) bool) error {
	from := j.Record.Phase()
	for {
		e, err := next()
		if err != nil {
			return err
		}
		switch err = j.Commit(ctx, e, j.Record.last().Seq); {
		case err == nil && e.Terminal():
			j.logEnd()
			return ErrEnded
		case err == nil, final(err), j.Record.Phase() != from, giveUp(err):
			return err
		}
		j.Logger().Warn("could not persist job state, retrying", telemetry.KeyError, err)
		if broker.Wait(j.holder.Working, Retry) != nil {
			return Return()
		}
	}
}

// final reports whether an outcome ends the hold.
func final(outcome error) bool {
	_, returned := errors.AsType[*ReturnError](outcome)
	return returned || errors.Is(outcome, ErrEnded) || errors.Is(outcome, ErrNotOurs) || errors.Is(outcome, ErrStale)
}

// End commits a terminal event and returns ErrEnded.
func (j *Job) End(ctx context.Context, e task.Event, err error) error {
	if err != nil {
		return err
	}
	return j.endAt(ctx, e, j.Record.last().Seq)
}

// Bury stores the request as a dead letter. Call it before the job ends, or a crash in between
// would lose the request.
func (j *Job) Bury(ctx context.Context, f *errcode.Error) error {
	return j.Request.putDeadLetter(ctx, j.Record.last().Job, f)
}

// BuryReply is like Bury but adds the chat's reply, or its digest, to the dead letter.
func (j *Job) BuryReply(ctx context.Context, f *errcode.Error, reply []byte, digest bool) error {
	return j.Request.keep(ctx, j.Record.last().Job, func(item *genbusv1.WorkItem) error {
		return j.Request.parts.DeadLetters.PutReply(ctx, item, j.Record.last().Job, f, reply, digest)
	})
}

// LetGo returns the outcome for a job that is no longer ours: ErrEnded if it has ended, so that it
// is finished here too, and ErrNotOurs otherwise.
func (j *Job) LetGo(ctx context.Context) error {
	current, err := j.holder.Log.Get(ctx, j.Name())
	if err != nil || !current.Terminal() || j.Record.last().Job != nil && !joblog.SameJob(j.Record.last(), current) {
		return ErrNotOurs
	}
	j.Record.set(current)
	return ErrEnded
}

// Conclude returns the outcome for the message after a step. It finishes an ended job. A failed
// step is retried. nil acknowledges the message.
func (j *Job) Conclude(step error, finish func() error) error {
	if errors.Is(step, ErrEnded) {
		if step = finish(); step == nil {
			return nil
		}
	}
	if step != nil && (final(step) || Waits(step)) {
		return step
	}
	j.reread = true // even after the end, because the job may be erased before it is finished
	level := slog.LevelWarn
	if _, wrong := errors.AsType[*task.TransitionError](step); wrong || errors.Is(step, errDeadLetter) {
		level = slog.LevelError
	}
	if j.holder.Working.Err() == nil {
		j.Logger().Log(j.Message.ctx, level, "could not complete job step, retrying", telemetry.KeyError, step)
	}
	return For(Retry)
}

// ReserveSubmission reserves log capacity for all events of a submission. Without capacity it
// returns false, and the job waits until expiring events free some.
func (j *Job) ReserveSubmission(ctx context.Context) (joblog.Release, bool) {
	release, ok := j.holder.Log.Capacity.ReserveSubmission(ctx, j.Record.last().Job)
	if !ok {
		j.holder.Metrics.SubmissionHeld(j.Name().Kind)
		j.Logger().Debug("delaying submission, log is full")
	}
	return release, ok
}

// Finish stores the dead letter that the end requires, if any, and the feed copy. It must be called
// before the message is acknowledged.
func (j *Job) Finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), CommitTimeout, errors.New("the dead letter and the feed copy timed out"))
	defer cancel()
	if err := j.Request.putEndDeadLetter(ctx, j.Record.last().Job); err != nil {
		return err
	}
	if err := j.holder.Log.Finish(ctx, j.Record.last()); err != nil {
		return fmt.Errorf("write the feed copy: %w", err)
	}
	return nil
}
