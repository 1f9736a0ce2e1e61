package video

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/task"
)

// submission brings a queued task to an upstream, at most once where that cannot be undone.
type submission struct {
	task   *heldTask
	create createCall
	left   uint64 // the event by which this holder let go of its item
	// checked is true when the task is known not to be poisoned.
	checked bool
}

// maxDeliveries is how often a job may be delivered without any progress.
const maxDeliveries = 10

// checkPoison ends a task that was delivered again and again without any progress: it may
// be what kills the processes that take it. Where no one knows whether its upstream has it,
// that is what the end says: redriving it may pay twice.
func (s *submission) checkPoison(ctx context.Context) error {
	t := s.task
	count, since := t.held.Message.Delivery().Count, t.execution().GetDeliveries()
	t.suspect = count > since+maxDeliveries/2
	if count <= since+maxDeliveries || t.held.Entry().Terminal() {
		return nil
	}
	f := errcode.New(errcode.Poisoned, "job %s was delivered %d times without any progress", t.held.Name().ID, count-since)
	if task.OutcomeUnknown(t.video()) {
		return s.endUnknown(ctx, f)
	}
	if err := t.held.Bury(ctx, f); err != nil {
		return err
	}
	return t.fail(ctx, f)
}

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
	if s.wasReturned() {
		return s.returnToBacklog(ctx)
	}
	release, err := t.runner.shared.ReserveLetter(ctx, t.held.Name().Tenant)
	if err != nil {
		return s.waitForLetters(ctx, err)
	}
	defer release()
	room, err := s.room(ctx)
	if err != nil {
		return err
	}
	defer room() // where it is not submitted
	if err := t.assigned.choose(t.route.Accounts, x.GetAttempt() > 0); err != nil {
		return t.busy(err)
	}
	return s.submitTo(ctx, t.assigned.account(), room)
}

// tooLate says which limit a task that is not submitted has passed.
func (s *submission) tooLate(now time.Time) *errcode.Error {
	v := s.task.video()
	if f := hold.NotStarted(v, now); f != nil {
		return f
	}
	deadline := v.GetExecution().GetDeadline()
	switch {
	// What was tried before, and is to be tried again, expires too.
	case v.GetExpiresAt() != nil && now.After(v.GetExpiresAt().AsTime()):
		return errcode.New(errcode.Expired, "job %s was not submitted before its expires_at", v.GetId())
	case deadline != nil && now.After(deadline.AsTime()):
		return errcode.New(errcode.DeadlineExceeded, "job %s: the upstream refused for now until the deadline of route %s", v.GetId(), s.task.route.Name)
	}
	return nil
}

// room is what the log has for all that the submission may bring. It is asked for before a
// slot is acquired: a task that waits for room has not tried an upstream.
func (s *submission) room(ctx context.Context) (joblog.Release, error) {
	room, ok := s.task.held.ReserveSubmission(ctx)
	if !ok {
		s.task.assigned.release()
		return nil, s.task.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return room, nil
}

// waitForLetters has a task that may not be submitted, because its dead letter would have
// no room, wait for its turn again: one that is held takes the slot of other tenants'.
func (s *submission) waitForLetters(ctx context.Context, cause error) error {
	if errcode.CodeOf(cause) != errcode.DeadLettersFull {
		return hold.For(hold.Retry)
	}
	s.task.holder().Metrics.SubmissionHeld(s.task.held.Name().Kind)
	s.task.held.Logger().Info("a task is not submitted: an operator has to resolve dead letters first", "cause", cause)
	return s.returnToBacklog(ctx)
}

// wasReturned reports whether the task let go of the item that is held, in the hands of this
// holder or of one before it: no one submits it from that item any more, which an ACK may
// take away from the replica that has it by then. The task goes on from the next item that
// the dispatcher puts into the ready window.
func (s *submission) wasReturned() bool {
	recorded, _ := strconv.ParseUint(s.task.held.Message.Delivery().Recorded, 10, 64) // none is before all events
	return s.task.execution().GetLeftLine() && recorded < s.task.held.Entry().Seq
}

// returnToBacklog puts the task back behind the ready window. That is committed first: who is
// given the item after that finds it in the log, and who was given it before cannot commit.
func (s *submission) returnToBacklog(ctx context.Context) error {
	t := s.task
	if s.left != t.held.Entry().Seq {
		now := time.Now()
		e, err := task.ReturnedToBacklog(t.video(), now, string(errcode.DeadLettersFull))
		if err == nil {
			release, ok := t.holder().Log.ReserveProgress(ctx, e)
			if !ok {
				return t.holdUntil(now.Add(hold.Jittered(hold.CapacityRetry, 0.2)))
			}
			defer release()
		}
		if err := t.held.Next(ctx, e, err); err != nil {
			return err
		}
		s.left = t.held.Entry().Seq
	}
	if err := t.runner.shared.PutBack(ctx, t.held.Entry(), t.held.Request.Item(), t.held.Message.Delivery().Seq); err != nil {
		t.held.Logger().Debug("a task that may not be submitted could not be put back; it is held", "error", err)
		return t.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return hold.ErrStale
}

// submitTo commits where the request goes, and sends it. A slot that was acquired right
// after a refusal, by the route as it was then, may be with an account that the route does
// not have any more: then the task chooses again before anything is committed.
func (s *submission) submitTo(ctx context.Context, a pool.Account, room joblog.Release) error {
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
	if err := s.submitting(ctx, a, room); err != nil {
		return err
	}
	sent, ok := s.create.send(ctx, t, client, a, request)
	if !ok {
		return s.notSent(ctx)
	}
	return s.afterCreate(ctx, sent)
}

// submitting commits that the task is submitted, into the room that it has.
func (s *submission) submitting(ctx context.Context, a pool.Account, room joblog.Release) error {
	defer room()
	now, err := s.task.now()
	if err != nil { // takers compare their clocks with submit_until
		s.task.assigned.release()
		return err
	}
	timeouts := s.task.route.Timeouts
	e, err := task.Submitting(s.task.video(), now, task.Submission{
		Upstream: a.Upstream, Key: a.Key, Until: now.Add(timeouts.Create), Deadline: now.Add(timeouts.Deadline),
	})
	return s.task.held.Next(ctx, e, err)
}

// request is the JSON for the upstream: the client's own bytes, but for the model's name
// where the route maps it.
func (s *submission) request(ctx context.Context, a pool.Account) ([]byte, error) {
	t := s.task
	id, model := t.held.Name().ID, t.held.Request.Item().GetModel()
	raw, err := t.held.Request.Body(ctx)
	if errors.Is(err, broker.ErrBodyLost) {
		return nil, s.failUnsubmitted(ctx, errcode.New(errcode.InputLost, "job %s: %w", id, err))
	}
	if err != nil {
		return nil, fmt.Errorf("read the request's body: %w", err)
	}
	mapped := t.route.ModelFor(a.Upstream, model)
	if mapped == model {
		return raw, nil
	}
	raw, err = t.route.Wire.Bodies.SetModel(raw, mapped)
	if err != nil {
		return nil, s.failUnsubmitted(ctx, errcode.New(errcode.Internal, "job %s: map the model: %w", id, err))
	}
	return raw, nil
}
