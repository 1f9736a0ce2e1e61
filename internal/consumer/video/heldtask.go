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
	slot     bool      // has one of the route's poll slots
	unasked  bool      // the step had to poll, but had no slot
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

// now returns the broker's time. If that cannot be told, the error is the step's outcome.
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

// holdUntil waits until at, or until the first limit that the job would pass.
func (t *heldTask) holdUntil(at time.Time) error {
	if _, err := t.now(); err != nil {
		return err // nor can the limits be judged
	}
	v, x := t.video(), t.execution()
	at = hold.Earliest(at, v.GetExpiresAt(), x.GetDeadline())
	if x.GetFirstSubmitAt() == nil {
		at = hold.Earliest(at, x.GetQueueDeadline())
	}
	return hold.Until(at)
}

// busy returns the outcome for a job that no key takes now.
func (t *heldTask) busy(err error) error {
	if busy, ok := errors.AsType[*pool.BusyError](err); ok {
		return t.holdUntil(hold.Soon(busy.Until))
	}
	return t.holdUntil(time.Now().Add(hold.Retry))
}

// schedulePoll sets the time of the next poll: the route's interval with jitter, longer after
// failures.
func (t *heldTask) schedulePoll(failures int) {
	interval := t.route.Poll.Interval * time.Duration(min(failures+1, slowPoll))
	t.pollAt = time.Now().Add(hold.Jittered(interval, t.route.Poll.Jitter))
}

// slowPoll is the largest factor by which failures stretch the poll interval.
const slowPoll = 6
