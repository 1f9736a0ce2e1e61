package video

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/consumer/hold"
)

// takeOverAfter is how long after submit_until a taker waits before it calls a submission
// unknown: clocks differ, each by clock.Limit from the broker's at most, and the owner's
// answer may be on its way.
const takeOverAfter = 2 * clock.Limit

// takeOver decides about a task that was found in submitting.
func (s *submission) takeOver(ctx context.Context) error {
	t := s.task
	if t.held.Record.Unheard(t.held.Entry()) {
		// Our own commit, of which we did not hear in time: the request was never begun,
		// so the task is free.
		s.certainlyNot()
		e, err := s.requeued(time.Now(), "not_sent")
		if err := t.held.Next(ctx, e, err); err != nil {
			return err
		}
		return hold.For(0)
	}
	if s.unanswered == t.execution().GetAttempt() {
		return s.giveUp(ctx, s.cause)
	}
	now, err := t.now()
	if err != nil {
		return err // its owner may be writing the request
	}
	if decide := t.execution().GetSubmitUntil().AsTime().Add(takeOverAfter); now.Before(decide) {
		return t.held.UntilReread(decide)
	}
	return s.giveUp(ctx, nil)
}
