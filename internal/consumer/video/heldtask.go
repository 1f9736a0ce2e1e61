package video

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
)

// heldTask is what the steps of one held task share.
type heldTask struct {
	runner   *Runner
	held     *hold.Job
	route    *routes.Video // as it was when this step began
	assigned assignment
	pollAt   time.Time // the next poll; zero: at once
	slot     bool      // one of the route's for polls is taken
	unasked  bool      // the step was to poll, and has no slot
}

// releaseSlot gives the slot for a poll back, if there is one.
func (t *heldTask) releaseSlot() {
	if t.slot {
		t.slot = false
		t.runner.polls.release()
	}
}

func (t *heldTask) holder() *hold.Holder { return t.runner.shared.Holder }

func (t *heldTask) video() *genbusv1.VideoTask {
	v, _ := t.held.Entry().Job.(*genbusv1.VideoTask)
	return v
}

func (t *heldTask) execution() *genbusv1.Execution { return t.video().GetExecution() }

// now is the time by the broker's clock; the error is the outcome where it cannot be told.
func (t *heldTask) now() (time.Time, error) {
	now, err := t.holder().Broker.Clock().Now()
	if err != nil {
		return time.Time{}, t.held.Unjudged()
	}
	return now, nil
}

// fail ends the task with an error.
func (t *heldTask) fail(ctx context.Context, f *errcode.Error) error {
	e, err := task.Failed(t.video(), time.Now(), f.TaskError())
	return t.held.End(ctx, e, err)
}

// holdUntil waits, but not beyond the first limit that the task would pass.
func (t *heldTask) holdUntil(at time.Time) error {
	if _, err := t.now(); err != nil {
		return err // nor is it known how long that is
	}
	v, x := t.video(), t.execution()
	at = hold.Earliest(at, v.GetExpiresAt(), x.GetDeadline())
	if x.GetFirstSubmitAt() == nil {
		at = hold.Earliest(at, x.GetQueueDeadline())
	}
	return hold.Until(at)
}

// busy is the outcome of a task that no key takes now.
func (t *heldTask) busy(err error) error {
	if busy, ok := errors.AsType[*pool.BusyError](err); ok {
		return t.holdUntil(hold.Soon(busy.Until))
	}
	return t.holdUntil(time.Now().Add(hold.Retry))
}

// schedulePoll sets the time of the next poll: the route's interval with jitter, longer
// after failures.
func (t *heldTask) schedulePoll(failures int) {
	interval := t.route.Poll.Interval * time.Duration(min(failures+1, slowPoll))
	t.pollAt = time.Now().Add(hold.Jittered(interval, t.route.Poll.Jitter))
}

// slowPoll is the most by which failing polls are stretched.
const slowPoll = 6
