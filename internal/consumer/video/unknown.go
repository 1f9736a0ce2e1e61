package video

import (
	"context"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// A submission whose outcome no one knows binds the task to its upstream and key for good
// (Execution.bound): no refusal of a later submission proves that the first was not
// accepted, and only there does the upstream know the job again.

// takeOverAfter is how long after submit_until a taker waits before it calls a submission
// unknown: clocks differ, each by clock.Limit from the broker's at most, and the owner's
// answer may be on its way.
const takeOverAfter = 2 * clock.Limit

// submitBound goes on where an earlier submission may have been accepted: only there, and
// only with the same key, does the upstream know it again.
func (s *submission) submitBound(ctx context.Context) error {
	t := s.task
	a := routes.Account(t.execution())
	if !t.route.HasAccount(a) {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "upstream %s is not configured any more", a))
	}
	room, err := s.room(ctx)
	if err != nil {
		return err
	}
	defer room() // where it is not submitted
	table := t.runner.shared.Routes
	if next, ok := table.TryRetryBudget(); !ok {
		return t.holdUntil(hold.Soon(next))
	}
	t.assigned.resume(table, a)
	return s.submitTo(ctx, a, room)
}

// failUnsubmitted ends a task that is not submitted. Where an earlier submission may have
// been accepted after all, that is what its end says.
func (s *submission) failUnsubmitted(ctx context.Context, f *errcode.Error) error {
	if task.OutcomeUnknown(s.task.video()) {
		return s.endUnknown(ctx, f)
	}
	return s.task.fail(ctx, f)
}

// refusedAgain is a refusal after a submission whose outcome is not known: it is about this
// one only, so the task stays where it is, or ends as unknown.
func (s *submission) refusedAgain(ctx context.Context, sent upstream.Submission) error {
	if sent.Verdict == upstream.RefusedForGood {
		return s.endUnknown(ctx, sent.Err)
	}
	return s.requeue(ctx, sent.Err, time.Now().Add(s.backoff(sent.Err)))
}

// unknown ends a task that the upstream may or may not have. It is submitted again only
// where the route says that the upstream honours the key.
func (s *submission) unknown(ctx context.Context, cause *upstream.Error) error {
	if ctx.Err() != nil {
		// Cut off by the end of the grace period. The taker of the task waits until
		// submit_until has passed and decides then.
		return hold.Return()
	}
	return s.giveUp(ctx, cause)
}

func (s *submission) giveUp(ctx context.Context, cause error) error {
	route := s.task.route
	if route.OnUnknownOutcome == config.OnUnknownResubmit && s.task.video().GetProtocol() == route.Wire.Name {
		return s.resubmit(ctx)
	}
	return s.endUnknown(ctx, cause)
}

// endUnknown ends a task that the upstream may or may not have; a dead letter keeps its
// request.
func (s *submission) endUnknown(ctx context.Context, cause error) error {
	t := s.task
	f := because(errcode.New(errcode.SubmissionUnknown, "nobody can know whether upstream %s accepted job %s; it was not submitted again",
		t.execution().GetUpstream(), t.held.Name().ID), cause)
	if err := t.held.Bury(ctx, f); err != nil {
		return err
	}
	return t.fail(ctx, f)
}

func (s *submission) resubmit(ctx context.Context) error {
	t := s.task
	now, err := t.now()
	if err != nil {
		return err
	}
	if f := s.tooLate(now); f != nil {
		return s.endUnknown(ctx, f)
	}
	room, err := s.room(ctx)
	if err != nil {
		return err
	}
	defer room() // where it is not submitted
	table := t.runner.shared.Routes
	for wait, ok := s.backoff(&upstream.Error{}), false; !ok; {
		if broker.Wait(t.holder().Fetching, wait) != nil {
			return hold.Return()
		}
		var next time.Time
		next, ok = table.TryRetryBudget()
		wait = time.Until(hold.Soon(next))
	}
	// The key that the upstream honours is honoured where it was sent first.
	a := routes.Account(t.execution())
	if !t.route.HasAccount(a) {
		return s.endUnknown(ctx, fmt.Errorf("upstream %s is not configured any more", a))
	}
	t.assigned.resume(table, a)
	return s.submitTo(ctx, a, room)
}

// takeOver decides about a task that was found in submitting.
func (s *submission) takeOver(ctx context.Context) error {
	t := s.task
	if t.held.Record.Unheard(t.held.Entry()) {
		// Our own commit, of which we did not hear in time: the request was never begun,
		// so the task is free.
		e, err := s.requeued(time.Now(), "not_sent")
		if err := t.held.Next(ctx, e, err); err != nil {
			return err
		}
		return hold.For(0)
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
