package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Load reads the job from its log, and writes its first event if admission did not. It returns nil
// if the job continues.
func (j *Job) Load(ctx context.Context) error {
	if j.Record.last().Job != nil {
		return j.reload(ctx)
	}
	d := j.Message.Delivery()
	current, meaning, err := j.resolve(ctx, d)
	switch {
	case clock.Refuses(err):
		return unjudged()
	case err != nil:
		return fmt.Errorf("read the log: %w", err)
	case meaning == joblog.Removed:
		j.Logger().Info("skipped job erased before it began")
		return ErrNotOurs
	case meaning == joblog.StaleItem:
		return j.staleItem()
	case meaning == joblog.Lost:
		return j.lost(ctx)
	case meaning == joblog.PendingFirstEvent:
		return j.begin(ctx)
	}
	if err := j.adopt(ctx, current); err != nil {
		return err
	}
	// A recreated durable consumer counts every delivery as the first. Such an item is neither
	// settled nor extended here. If its holder lives, the holder's extensions still apply to it,
	// because they name its sequence. Otherwise the item is redelivered after AckWait, and taken
	// then.
	if !j.holder.Alone && j.Record.begunElsewhere(d) {
		j.Logger().Info("skipped first delivery of job begun by another replica")
		return ErrNotOurs
	}
	j.holder.Metrics.Resumed(j.Name().Kind, task.PhaseWord(j.Record.Phase()))
	return nil
}

// begin writes the job's first event. If it cannot tell whether the job still has its item, it
// returns the message: JetStream does not redeliver a removed one.
func (j *Job) begin(ctx context.Context) error {
	if err := j.Commit(ctx, task.FromWork(j.Request.item), 0); err != nil {
		return err
	}
	current, err := j.holder.Queue.Items.Confirm(ctx, j.Record.last())
	if err != nil {
		j.Logger().Warn("could not confirm work item of job", telemetry.KeyError, err)
		return Return()
	}
	return j.adopt(ctx, current)
}

// firstEventWait is about as long as a commit takes on three nodes. Without it, holder and
// admission would race to write the first event, and the loser would need another read.
const firstEventWait = 5 * time.Millisecond

// resolve returns the meaning of the work item. On a first delivery it asks this process's
// admission first; otherwise it reads the log. It always reads the log for an item with Recorded,
// which comes from the backlog: the job may have ended and been erased during the dispatch.
func (j *Job) resolve(ctx context.Context, d Delivery) (joblog.Entry, joblog.Meaning, error) {
	i := j.holder.Queue.Items.Delivered(j.Request.item, d.Seq, d.Recorded)
	if d.Count == 1 && d.Recorded == "" {
		if e, ok := j.holder.Admitted(ctx, j.Name()); ok {
			return e, i.In(e), nil
		}
		// Another replica has just stored the item and is writing the first event.
		if err := broker.Wait(ctx, firstEventWait); err != nil {
			return joblog.Entry{}, 0, err
		}
	}
	return j.holder.Log.Resolve(ctx, i)
}

// reload rereads a job that this holder knows.
func (j *Job) reload(ctx context.Context) error {
	current, err := j.holder.Log.Get(ctx, j.Name())
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		return j.handleMissingLog(ctx, task.Event{}, 0)
	case err != nil:
		return fmt.Errorf("read the log again: %w", err)
	}
	return j.adopt(ctx, current)
}

// adopt continues from the leader's state. Another replica's event in a job that we have begun
// means that the job is no longer ours.
func (j *Job) adopt(ctx context.Context, current joblog.Entry) error {
	known := j.Record.last().Job != nil
	switch {
	case known && j.Record.isBegunAgain(current):
		if j.Record.paidSince(current) {
			return j.handleMissingLog(ctx, task.Event{}, current.Seq)
		}
		j.Record.set(current)
		return nil
	case known && !joblog.SameJob(j.Record.last(), current):
		return ErrNotOurs
	case current.Terminal():
		j.Record.set(current)
		return ErrEnded
	case !known:
		return j.first(current)
	case j.Record.byOther(current):
		j.Record.set(current)
		return ErrNotOurs
	default:
		j.Record.set(current)
		return nil
	}
}

// first is adopt for a job that this holder does not know yet.
func (j *Job) first(current joblog.Entry) error {
	if !task.Carries(j.Request.item, current.Job) {
		return j.staleItem()
	}
	j.Record.set(current)
	return nil
}

// staleItem returns the outcome for a work item from which no job runs. Either two requests with
// the same ID were stored and the log has the other one, or the job was erased while the item was
// being dispatched.
func (j *Job) staleItem() error {
	if again := j.stale.sure(time.Now()); !again.IsZero() {
		return j.UntilReread(again)
	}
	j.Logger().Info("dropped stale work item")
	return ErrStale
}

// lost ends a job whose log was lost with its first event. The dead letter keeps the request.
func (j *Job) lost(ctx context.Context) error {
	f := errcode.New(errcode.LogLost, "job %s was not sent to its upstream because its log is missing", j.Name().ID)
	if err := j.Request.putLostDeadLetter(ctx, f); err != nil {
		return err
	}
	return j.endAt(ctx, task.FailedAtOnce(j.Request.item, time.Now(), f.TaskError()), 0)
}

// handleMissingLog handles a held job whose log has vanished or has only its first event again. If
// the work item was removed, the job was erased and is dropped. Otherwise it ends. next is the
// event whose commit found no log, if any. If next or the last known event is an end, it is written
// unchanged: it was paid for. Otherwise the job fails, and a dead letter keeps what this holder
// knows.
//
// Only a chat that has not ended gets a second look. For an end, or for a video, which must not be
// submitted again, none is needed: the write after last is refused if the log has more.
func (j *Job) handleMissingLog(ctx context.Context, next task.Event, last uint64) error {
	j.reread = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommitTimeout)
	defer cancel()
	removed, err := j.Request.removed(ctx)
	if err != nil {
		return fmt.Errorf("the held job's log is missing, and its work item cannot be read: %w", err)
	}
	if removed {
		j.Logger().Info("dropped erased job", telemetry.KeyUpstreamID, j.Record.upstreamID())
		return ErrNotOurs
	}
	if next.Job == nil || !next.Terminal() {
		next = j.Record.last().Event
	}
	if next.Terminal() {
		next.Job = proto.CloneOf(next.Job) // others may be reading the job of the first write
		return j.endAt(ctx, next, last)
	}
	if j.Name().Kind == subject.Chat {
		if again := j.Record.vanished.sure(time.Now()); !again.IsZero() {
			return Until(again)
		}
	}
	j.Logger().Error("lost log of held job", telemetry.KeyUpstreamID, j.Record.upstreamID())
	f := errcode.New(errcode.LogLost, "the log of job %s is missing, and its outcome is unknown; its upstream ID was %q", j.Name().ID, j.Record.upstreamID())
	if err := j.Request.putDeadLetter(ctx, j.Record.last().Job, f); err != nil {
		return err
	}
	e, err := task.Failed(j.Record.last().Job, time.Now(), f.TaskError())
	if err != nil {
		return err
	}
	return j.endAt(ctx, e, last)
}

// Commit stores an event after sequence last. It returns nil if the event is stored and the job
// continues.
func (j *Job) Commit(ctx context.Context, e task.Event, last uint64) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), CommitTimeout, errors.New("the commit timed out"))
	defer cancel()
	x := e.Job.GetExecution()
	x.Deliveries = j.Message.Delivery().Count
	err := j.Record.write(ctx, e, last)
	var lost *joblog.LostError
	switch {
	case err == nil:
		j.Message.traceCommit(j.Record.last())
		return nil
	case errors.As(err, &lost) && e.Terminal() && j.Record.isBegunAgain(lost.Current):
		return j.Commit(ctx, e, lost.Current.Seq) // an end was paid for
	case errors.As(err, &lost):
		return j.afterLost(ctx, lost.Current)
	case errors.Is(err, joblog.ErrNotFound) && last > 0:
		return j.handleMissingLog(ctx, e, 0)
	}
	return fmt.Errorf("commit %s: %w", task.PhaseWord(e.Job.GetExecution().GetPhase()), err)
}

// afterLost continues after a commit that lost to another event: admission's first event, or an
// earlier write of ours that we had given up on.
func (j *Job) afterLost(ctx context.Context, current joblog.Entry) error {
	known := j.Record.last()
	if err := j.adopt(ctx, current); err != nil {
		return err
	}
	if known.Job != nil && !j.Record.isOurs(current) && current.Nonce != known.Nonce {
		return ErrNotOurs // the log had vanished, and another replica has written it again
	}
	return For(0)
}

func (j *Job) endAt(ctx context.Context, e task.Event, last uint64) error {
	if err := j.Commit(ctx, e, last); err != nil {
		return err
	}
	j.logEnd()
	return ErrEnded
}

func (j *Job) logEnd() {
	end := j.Record.last()
	j.holder.Logger.Log(j.Message.ctx, end.EndLevel(j.Request.deadLetterStored), "job ended", end.EndAttrs()...)
}
