package hold

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// staleCheck is a suspicion that takes two looks, SecondLook apart.
type staleCheck struct{ since time.Time }

// sure is zero when the suspicion is true, and else when to look again.
func (c *staleCheck) sure(now time.Time) (again time.Time) {
	if c.since.IsZero() {
		c.since = now
	}
	if again = c.since.Add(SecondLook); now.Before(again) {
		return again
	}
	return time.Time{}
}

// Load reads the job from its log, writing its first event where admission did not get to
// it. It returns nil when the job goes on from there.
func (j *Job) Load(ctx context.Context) error {
	if j.entry.Job != nil {
		return j.reload(ctx)
	}
	d := j.message.delivery()
	current, meaning, err := j.resolve(ctx, d)
	switch {
	case clock.Refuses(err):
		return Unjudged()
	case err != nil:
		return fmt.Errorf("read the log: %w", err)
	case meaning == joblog.Removed:
		j.Logger().Info("a job was erased before it began")
		return ErrNotOurs
	case meaning == joblog.StaleItem:
		return j.staleItem()
	case meaning == joblog.Lost:
		return j.lost(ctx)
	case meaning == joblog.PendingFirstEvent:
		return j.Commit(ctx, task.FromWork(j.item), 0)
	}
	if err := j.adopt(current); err != nil {
		return err
	}
	if j.heldElsewhere(d) {
		j.Logger().Info("a job that another replica has begun with came for the first time; it is taken if it comes again")
		return ErrNotOurs
	}
	j.holder.Metrics.Resumed(j.name.Kind, task.PhaseWord(j.Phase()))
	return nil
}

// resolve says what the work item means: on the first delivery by what this process has
// admitted, and else by the log. An item that is marked has waited for its turn: its job
// may have been ended and erased since, while it was moved into the ready window.
func (j *Job) resolve(ctx context.Context, d Delivery) (joblog.Entry, joblog.Meaning, error) {
	i := j.holder.Queue.Delivered(j.item, d.Seq, d.Recorded)
	if d.Count == 1 && d.Recorded == "" {
		if e, ok := j.holder.Admitted(ctx, j.name); ok {
			return e, i.In(e), nil
		}
	}
	return j.holder.Log.Resolve(ctx, i)
}

// LetGo is the outcome for a job that is not ours any more: ErrEnded where it has ended, so
// that it is finished, and ErrNotOurs.
func (j *Job) LetGo(ctx context.Context) error {
	current, err := j.holder.Log.Get(ctx, j.name)
	if err != nil || !current.Terminal() || j.entry.Job != nil && !SameJob(j.entry, current) {
		return ErrNotOurs
	}
	j.set(current)
	return ErrEnded
}

// reload reads the job again, which this holder knows.
func (j *Job) reload(ctx context.Context) error {
	current, err := j.holder.Log.Get(ctx, j.name)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		return j.gone(ctx, task.Event{})
	case err != nil:
		return fmt.Errorf("read the log again: %w", err)
	}
	return j.adopt(current)
}

// adopt goes on from what the leader has. An event of another replica in a job that we
// had begun with means that the job is no longer ours.
func (j *Job) adopt(current joblog.Entry) error {
	known := j.entry.Job != nil
	switch {
	case known && j.name.Kind == subject.Chat && j.isBegunAgain(current):
		j.set(current) // a video may have been submitted
		return nil
	case known && !SameJob(j.entry, current):
		return ErrNotOurs
	case current.Terminal():
		j.set(current)
		return ErrEnded
	case !known && !j.sameRequest(current):
		return j.staleItem()
	case known && j.byOther(current):
		j.set(current)
		return ErrNotOurs
	default:
		j.set(current)
		return nil
	}
}

// SameJob tells a job from one that was made under its id after it was erased.
func SameJob(a, b joblog.Entry) bool {
	return a.Job.GetCreatedAt().AsTime().Equal(b.Job.GetCreatedAt().AsTime()) && b.Version() >= a.Version()
}

// sameRequest reports whether a job is that of the work item's request.
func (j *Job) sameRequest(current joblog.Entry) bool {
	return task.SameRequest(j.item, current.Job.GetExecution())
}

// staleItem is the outcome for a work item that is not of the job that its id names. Two
// requests with one id and different bodies may both have been stored, and the log has
// decided for the other one; or the job was erased while its item was on its way into the
// ready window. Nothing of the item is run.
func (j *Job) staleItem() error {
	if again := j.stale.sure(time.Now()); !again.IsZero() {
		return j.UntilReread(again)
	}
	j.Logger().Info("a work item that is not of its job was dropped")
	return ErrStale
}

// heldElsewhere reports whether the item comes for the first time of a job that another
// replica has begun with since the item was put: the durable consumer was deleted and
// created again, and what it says of deliveries proves nothing. Such an item is not
// settled and not extended. If its holder lives, the holder's extensions keep it, by its
// sequence; if not, it comes again after AckWait, and is taken.
func (j *Job) heldElsewhere(d Delivery) bool {
	if d.Count > 1 || j.holder.Alone || j.entry.Job.GetExecution().GetWriter() == j.holder.Log.Writer() {
		return false
	}
	if d.Recorded == "" {
		return j.entry.Version() > 1
	}
	return d.Recorded != strconv.FormatUint(j.entry.Seq, 10)
}

// lost ends a job whose log was lost with its first event. Its request is kept: the letter
// is all that is left of it.
func (j *Job) lost(ctx context.Context) error {
	f := errcode.New(errcode.LogLost, "the log of job %s is gone, so its upstream was not called", j.name.ID)
	if err := j.holder.Letters.Put(ctx, j.item, nil, f, "lost"); err != nil {
		return fmt.Errorf("%w: %w", errLetter, err)
	}
	j.buried = true
	return j.endAt(ctx, task.FailedAtOnce(j.item, time.Now(), f.TaskError()), 0)
}

// gone ends a held job whose log has vanished, unless the job was erased: its work item
// would have been removed first. next is the event that found no log, if any. An end, also
// one that the log had already, is written as it is: what it says is paid for. Otherwise a
// letter keeps what this holder knows.
//
// One look is enough for an end and for a video, which must not be submitted again: the
// write at 0 is refused where the log is there after all.
func (j *Job) gone(ctx context.Context, next task.Event) error {
	j.reread = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommitTimeout)
	defer cancel()
	removed, err := j.holder.Queue.Removed(ctx, j.message.delivery().Seq)
	if err != nil {
		return fmt.Errorf("the log of the held job is gone, and its work item cannot be read: %w", err)
	}
	if removed {
		j.Logger().Info("a held job was erased", telemetry.KeyUpstreamID, j.upstreamID())
		return ErrNotOurs
	}
	if next.Job == nil || !next.Terminal() {
		next = j.entry.Event
	}
	if next.Terminal() {
		return j.endAt(ctx, next, 0)
	}
	if j.name.Kind == subject.Chat {
		if again := j.vanished.sure(time.Now()); !again.IsZero() {
			return Until(again)
		}
	}
	j.Logger().Error("the log of a held job is gone", telemetry.KeyUpstreamID, j.upstreamID())
	f := errcode.New(errcode.LogLost, "the log of job %s is gone, and what became of it too; its upstream id was %q", j.name.ID, j.upstreamID())
	if err := j.Bury(ctx, f); err != nil {
		return err
	}
	e, err := task.Failed(j.entry.Job, time.Now(), f.TaskError())
	if err != nil {
		return err
	}
	return j.endAt(ctx, e, 0)
}

// upstreamID is the upstream's id of the task, as far as the log knew it.
func (j *Job) upstreamID() string {
	v, _ := j.entry.Job.(*genbusv1.VideoTask)
	return v.GetUpstreamTaskId()
}
