package video

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// submit brings a queued task to the upstream: the phase submitting is committed before the
// request is written, so that no other replica submits too.
func (s *submission) submit(ctx context.Context) error {
	t := s.task
	now, err := t.now()
	if err != nil {
		return err
	}
	x := t.execution()
	if f := s.tooLate(now); f != nil {
		return s.failUnsubmitted(ctx, f)
	}
	if t.video().GetProtocol() != t.route.Wire.Name {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "job %s is written in protocol %s, and route %s speaks %s now",
			t.held.Name().ID, t.video().GetProtocol(), t.route.Name, t.route.Wire.Name))
	}
	if wait := x.GetNotBefore(); wait != nil && now.Before(wait.AsTime()) {
		return t.holdUntil(wait.AsTime())
	}
	if x.GetBound() {
		return s.submitBound(ctx)
	}
	s.releaseReserved() // of an earlier attempt that was not sent
	if s.reserved, err = t.runner.shared.ReserveLetter(ctx, t.held.Name().Tenant); err != nil {
		return s.noRoomForLetter(ctx, err)
	}
	defer func() {
		if t.held.Record.Phase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING { // else its outcome is not known
			s.releaseReserved()
		}
	}()
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // where it is not submitted
	if err := t.assigned.choose(t.route.Accounts, x.GetAttempt() > 0); err != nil {
		return t.busy(err)
	}
	return s.submitTo(ctx, t.assigned.account(), capacity)
}

// noRoomForLetter ends a task that was never submitted if its tenant's stored letters alone
// reach the bound. Otherwise the task stays held and retries. So does a task that was made of a
// dead letter: that letter is gone, and the task is all that is left of the request.
func (s *submission) noRoomForLetter(ctx context.Context, cause error) error {
	t := s.task
	if errcode.CodeOf(cause) != errcode.DeadLettersFull {
		return hold.For(hold.Retry)
	}
	if !errors.Is(cause, quota.ErrTenantBound) || t.execution().GetAttempt() > 0 || t.video().GetRetryOf() != "" {
		return t.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return s.failUnsubmitted(ctx, errcode.From(cause))
}

// submitTo commits where the request goes, and sends it. A slot that was acquired right
// after a refusal, by the route as it was then, may be with an account that the route does
// not have any more: then the task chooses again before anything is committed.
func (s *submission) submitTo(ctx context.Context, a pool.Account, capacity joblog.Release) error {
	t := s.task
	client, ok := t.route.Client(a)
	if !ok {
		t.assigned.release()
		return hold.For(0)
	}
	request, err := s.request(ctx, a)
	if err != nil {
		return err
	}
	if err := s.submitting(ctx, a, capacity); err != nil {
		return err
	}
	sent, ok := s.send(ctx, client, a, request)
	if !ok {
		return s.notSent(ctx)
	}
	return s.afterCreate(ctx, sent)
}

// submitting commits that the task is submitted, into the room that it has.
func (s *submission) submitting(ctx context.Context, a pool.Account, capacity joblog.Release) error {
	defer capacity()
	now, err := s.task.now()
	if err != nil { // takers compare their clocks with submit_until
		s.task.assigned.release()
		return err
	}
	timeouts, ownID := s.task.route.Timeouts, ""
	if s.task.route.Wire.OwnIDs {
		ownID = task.OwnID(s.task.video())
	}
	e, err := task.Submitting(s.task.video(), now, task.Submission{
		Upstream: a.Upstream, Key: a.Key, OwnID: ownID, Until: now.Add(timeouts.Create), Deadline: now.Add(timeouts.Deadline),
	})
	return s.task.held.Next(ctx, e, err)
}

// request is the JSON for the upstream: the client's own bytes, but for the model's name
// where the route maps it.
func (s *submission) request(ctx context.Context, a pool.Account) (body.Document, error) {
	t := s.task
	id, model := t.held.Name().ID, t.held.Request.Item().GetModel()
	d, err := t.held.Request.Body(ctx)
	if errors.Is(err, broker.ErrBodyLost) {
		return d, s.failUnsubmitted(ctx, errcode.New(errcode.InputLost, "job %s: %w", id, err))
	}
	if err != nil {
		return d, fmt.Errorf("read the request's body: %w", err)
	}
	mapped := t.route.ModelFor(a.Upstream, model)
	if mapped == model {
		return d, nil
	}
	d = d.WithText(t.route.Wire.Bodies.ModelMember(), mapped)
	if err := d.Err(); err != nil {
		return d, s.failUnsubmitted(ctx, errcode.New(errcode.Internal, "job %s: map the model: %w", id, err))
	}
	return d, nil
}

// submitBound goes on where an earlier submission may have been accepted: only there, and
// only with the same key, does the upstream know it again.
func (s *submission) submitBound(ctx context.Context) error {
	t := s.task
	a := routes.Account(t.execution())
	if !t.route.HasAccount(a) {
		return s.failUnsubmitted(ctx, errcode.New(errcode.UpstreamRemoved, "upstream %s is not configured any more", a))
	}
	return s.submitAgain(ctx, a)
}

// afterCreate commits what became of the request.
func (s *submission) afterCreate(ctx context.Context, sent upstream.Submission) error {
	t := s.task
	t.assigned.report(t.route.Accounts, t.held.Name(), sent)
	switch sent.Verdict {
	case upstream.Accepted:
		return s.submitted(ctx, sent)
	case upstream.RefusedForGood, upstream.RefusedForNow:
		s.certainlyNot()
		return s.refusedBy(ctx, sent)
	default:
		return s.unknown(ctx, sent.Err)
	}
}

// unknown decides about a task that the upstream may or may not have.
func (s *submission) unknown(ctx context.Context, cause *upstream.Error) error {
	if ctx.Err() != nil {
		// Cut off by the end of the grace period. The taker of the task waits until
		// submit_until has passed and decides then.
		return hold.Return()
	}
	s.unanswered, s.cause = s.task.execution().GetAttempt(), cause
	return s.giveUp(ctx, cause)
}

// giveUp decides about a task that the upstream may or may not have: it goes on where the upstream
// finds it, is submitted again where the route says that the upstream honours the key, and ends.
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

// resubmit waits, and submits the task again. Each wait ends the step: the next one has the
// route as it is then, and the limits that the task has passed meanwhile.
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
	// The key that the upstream honours is honoured where it was sent first.
	a := routes.Account(t.execution())
	if !t.route.HasAccount(a) {
		return s.endUnknown(ctx, fmt.Errorf("upstream %s is not configured any more", a))
	}
	return s.submitAgain(ctx, a)
}

// submitAgain submits a task to the account that may have it, where the log has room and the
// retry budget allows it.
func (s *submission) submitAgain(ctx context.Context, a pool.Account) error {
	t := s.task
	capacity, err := s.reserveCapacity(ctx)
	if err != nil {
		return err
	}
	defer capacity() // where it is not submitted
	table := t.runner.shared.Routes
	if next, ok := table.TryRetryBudget(); !ok {
		return t.holdUntil(hold.Soon(next))
	}
	t.assigned.resume(table, a)
	return s.submitTo(ctx, a, capacity)
}
