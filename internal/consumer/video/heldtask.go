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

// heldTask is the state that the steps of one held job share.
type heldTask struct {
	runner   *Runner
	held     *hold.Job
	route    *routes.Video // as of the start of the step
	assigned assignment
	pollAt   time.Time // time of the next poll; zero means now
	slot     bool      // holds one of the route's poll slots
	unasked  bool      // the step could not poll because it had no slot
}

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

// now returns the current time. If the clock is wrong or unverified, the error is the outcome of
// the step.
func (t *heldTask) now() (time.Time, error) {
	now, err := t.holder().Broker.Clock().Now()
	if err != nil {
		return time.Time{}, t.held.Unjudged()
	}
	return now, nil
}

func (t *heldTask) fail(ctx context.Context, f *errcode.Error) error {
	e, err := task.Failed(t.video(), time.Now(), f.TaskError())
	return t.held.End(ctx, e, err)
}

// holdUntil keeps the message until at, or until the job's first limit if that is earlier.
func (t *heldTask) holdUntil(at time.Time) error {
	if _, err := t.now(); err != nil {
		return err // the limits cannot be judged either
	}
	v, x := t.video(), t.execution()
	at = hold.Earliest(at, v.GetExpiresAt(), x.GetDeadline())
	if x.GetFirstSubmitAt() == nil {
		at = hold.Earliest(at, x.GetQueueDeadline())
	}
	return hold.Until(at)
}

// busy returns the outcome for a job that no key accepts now.
func (t *heldTask) busy(err error) error {
	if busy, ok := errors.AsType[*pool.BusyError](err); ok {
		return t.holdUntil(hold.Soon(busy.Until))
	}
	return t.holdUntil(time.Now().Add(hold.Retry))
}

// schedulePoll sets the time of the next poll from the route's interval and jitter. Consecutive
// failures lengthen the interval.
func (t *heldTask) schedulePoll(failures int) {
	interval := t.route.Poll.Interval * time.Duration(min(failures+1, slowPoll))
	t.pollAt = time.Now().Add(hold.Jittered(interval, t.route.Poll.Jitter))
}

// slowPoll is the largest factor by which failures lengthen the poll interval.
const slowPoll = 6
