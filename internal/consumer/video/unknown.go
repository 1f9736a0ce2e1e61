package video

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/upstream"
)

// A submission with an unknown outcome permanently binds the job to its upstream and key
// (Execution.bound). A later refusal does not prove that the first submission was not accepted, and
// no other key knows the job.

// takeOverAfter is how long after submit_until a new holder declares the outcome of a submission
// unknown. Each holder's clock may differ from the broker's by up to clock.Limit, and the old
// holder may still be committing the upstream's answer.
const takeOverAfter = 2 * clock.Limit

// takeOver decides what to do with a job that was found in the submitting phase.
func (s *submission) takeOver(ctx context.Context) error {
	t := s.task
	if t.held.Record.Unconfirmed(t.held.Entry()) {
		// This is our own commit, whose answer did not arrive in time. The request was not sent, so
		// the job can be requeued.
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
		return err // the old holder may still be sending the request
	}
	if decide := t.execution().GetSubmitUntil().AsTime().Add(takeOverAfter); now.Before(decide) {
		return t.held.UntilReread(decide)
	}
	return s.giveUp(ctx, nil)
}

func (s *submission) unknown(ctx context.Context, cause *upstream.Error) error {
	if ctx.Err() != nil {
		// The call was cut off at the end of the grace period. The next holder decides after
		// submit_until.
		return hold.Return()
	}
	s.unanswered, s.cause = s.task.execution().GetAttempt(), cause
	return s.giveUp(ctx, cause)
}

// giveUp decides what to do with a job that the upstream may or may not have. If the upstream finds
// the task, the job continues. If the route has on_unknown_outcome: resubmit, the job is
// resubmitted. Otherwise it ends after the remaining lookups.
func (s *submission) giveUp(ctx context.Context, cause error) error {
	route := s.task.route
	if s.task.video().GetProtocol() != route.Wire.Name {
		return s.endUnknown(ctx, cause)
	}
	found, again := s.lookUp(ctx, false)
	deadline := s.task.execution().GetDeadline().AsTime()
	switch {
	case found != nil:
		return s.submitted(ctx, *found)
	case ctx.Err() != nil:
		return hold.Return()
	case route.OnUnknownOutcome == config.OnUnknownResubmit:
		return s.resubmit(ctx)
	case !again.IsZero() && time.Now().Before(deadline):
		return hold.Until(hold.Earliest(again, s.task.execution().GetDeadline()))
	}
	return s.endUnknown(ctx, cause)
}

// resubmit submits the job again after a delay. Each wait ends the step, so that the next step uses
// the current route and limits.
func (s *submission) resubmit(ctx context.Context) error {
	t := s.task
	now, err := t.now()
	if err != nil {
		return err
	}
	if f := s.tooLate(now); f != nil {
		return s.endUnknown(ctx, f)
	}
	if x := t.execution(); s.resubmits != x.GetAttempt() {
		s.resubmits, s.resubmitAt = x.GetAttempt(), time.Now().Add(s.backoff(&upstream.Error{}))
	}
	if time.Now().Before(s.resubmitAt) {
		return t.holdUntil(s.resubmitAt)
	}
	// An upstream honours an idempotency key only for the upstream key that sent it first.
	a := routes.UpstreamKey(t.execution())
	if !t.route.HasKey(a) {
		return s.endUnknown(ctx, fmt.Errorf("upstream %s is no longer configured", a))
	}
	return s.submitAgain(ctx, a)
}

// endUnknown ends a job that the upstream may or may not have, unless a last lookup finds the task.
// A dead letter keeps the request.
func (s *submission) endUnknown(ctx context.Context, cause error) error {
	t := s.task
	if found, _ := s.lookUp(ctx, true); found != nil {
		return s.submitted(ctx, *found)
	}
	if ctx.Err() != nil {
		return hold.Return()
	}
	f := because(errcode.New(errcode.SubmissionUnknown, "upstream %s may have accepted job %s, so it was not submitted again",
		t.execution().GetUpstream(), t.held.Name().ID), cause)
	if err := t.held.Bury(ctx, f); err != nil {
		return err
	}
	return t.fail(ctx, f)
}
