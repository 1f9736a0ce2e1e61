package consumer

import (
	"context"
	"strconv"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// A stray is a work item that is not of the job that its id names. Two requests
// with one id and different bodies may both have been stored, and the log has
// decided for the other one; or the job was erased while its item was on its way
// into the line. A stray is acknowledged, and nothing of it is run.

// secondLook is the wait before an item is believed to be a stray, or the log of a held
// chat to have vanished. A log is read from its leader, but one that has just lost the
// lead may answer once more.
const secondLook = 5 * time.Second

// doubt is what is held against a job's work item, or its log.
type doubt struct {
	since time.Time // of the first look that found it so; zero: none did
}

// stray is the outcome for an item that looks like a stray: Ack when that is sure.
func (d *doubt) stray(now time.Time) Outcome {
	if d.since.IsZero() {
		d.since = now
	}
	if sure := d.since.Add(secondLook); now.Before(sure) {
		return Hold(sure)
	}
	return Ack()
}

// resolve says what a work item that was just delivered means: on the first delivery by
// what this process has admitted, and else by the log. One that is marked has waited for
// its turn: its job may have been ended and erased since, while it came into the line.
func (c *Consumer) resolve(ctx context.Context, item *genbusv1.WorkItem, d delivery) (tasklog.Entry, tasklog.Meaning, error) {
	i := c.Queue.Delivered(item, d.seq, d.recorded)
	if d.count == 1 && d.recorded == "" {
		if e, ok := c.Admission.First(ctx, i.Name()); ok {
			return e, i.In(e), nil
		}
	}
	return c.Log.Resolve(ctx, i)
}

// sameRequest reports whether a job is that of a work item's request.
func sameRequest(item *genbusv1.WorkItem, current tasklog.Entry) bool {
	return task.SameRequest(item, current.Job.GetExecution())
}

// anotherItem settles an item whose job this process holds by another one. Which of
// the two is a stray shows when the job is let go.
func (c *Consumer) anotherItem(d delivery, attrs ...any) {
	if err := settle(d, NakWithDelay(secondLook)); err != nil {
		c.Logger.Warn("settle failed; the message will be redelivered", append(attrs, "error", err)...)
	}
}

// heldElsewhere reports whether an item comes for the first time of a job that another
// replica has begun with since the item was put in line: the durable consumer was deleted
// and made again, and what it says of deliveries proves nothing. Such an item is left
// alone, neither acknowledged, nor given back, nor extended. If its holder lives, the
// holder's extensions keep it, by its sequence; if not, it comes again after AckWait, and
// is taken.
//
// Of an embedded server this process is the only holder.
func (c *Consumer) heldElsewhere(d delivery, current tasklog.Entry) bool {
	if d.count > 1 || current.Terminal() || c.Config.Now().NATS.Embedded() || current.Job.GetExecution().GetWriter() == c.Log.Writer() {
		return false
	}
	if d.recorded == "" {
		return current.Version() > 1
	}
	return d.recorded != strconv.FormatUint(current.Seq, 10)
}

// leaveToHolder is the outcome for an item that another replica may hold.
func (c *Consumer) leaveToHolder(attrs ...any) Outcome {
	c.Logger.Info("a job that another replica has begun with came for the first time; it is taken if it comes again", attrs...)
	return Drop()
}
