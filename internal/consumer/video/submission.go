package video

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// A submission whose outcome no one knows binds the task to its upstream and key for good
// (Execution.bound): no refusal of a later submission proves that the first was not
// accepted, and only there does the upstream know the job again.

// submission brings a queued task to an upstream, at most once where that cannot be undone.
type submission struct {
	task *heldTask
	// unanswered is the attempt of which this holder knows that the outcome is not known, and
	// cause is why.
	unanswered uint32
	cause      error
	lookUps    lookUps
	// reserved gives back what is reserved for the dead letter of this attempt; nil for nothing.
	reserved func()
	// resubmits is the attempt that is repeated at resubmitAt.
	resubmits  uint32
	resubmitAt time.Time
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

// reserveCapacity is what the log has for all that the submission may bring. It is asked for before a
// slot is acquired: a task that waits for room has not tried an upstream.
func (s *submission) reserveCapacity(ctx context.Context) (joblog.Release, error) {
	capacity, ok := s.task.held.ReserveSubmission(ctx)
	if !ok {
		s.task.assigned.release()
		return nil, s.task.holdUntil(time.Now().Add(hold.Jittered(hold.CapacityRetry, 0.2)))
	}
	return capacity, nil
}

// requeued is the event that brings the task back to the queue until notBefore. Others
// compare that with their clocks, so that a wrong clock has no one wait.
func (s *submission) requeued(notBefore time.Time, refusal string) (task.Event, error) {
	if _, err := s.task.holder().Broker.Clock().Now(); err != nil {
		notBefore = s.task.video().GetCreatedAt().AsTime()
	}
	return task.Requeued(s.task.video(), time.Now(), notBefore, refusal)
}

// requeue brings a task that an upstream refused back to the queue, until notBefore.
func (s *submission) requeue(ctx context.Context, cause *upstream.Error, notBefore time.Time) error {
	if err := s.task.held.Persist(ctx, func() (task.Event, error) { return s.requeued(notBefore, refusal(cause)) }); err != nil {
		return err
	}
	return s.task.holdUntil(notBefore)
}

// backoff is what the upstream asked for, or 1 s doubled with each attempt up to a minute,
// with a fifth of jitter.
func (s *submission) backoff(err *upstream.Error) time.Duration {
	if err.RetryAfter > 0 {
		return err.RetryAfter
	}
	d := time.Second << min(max(s.task.execution().GetAttempt(), 1)-1, 6)
	return hold.Jittered(min(d, time.Minute), 0.2)
}

// refusal is the word that stays visible in the task.
func refusal(err *upstream.Error) string {
	if err.Code != "" {
		return errcode.Clip(err.Code, 64)
	}
	return "refused_for_now"
}

// endUnknown ends a task that the upstream may or may not have, unless the upstream finds it now; a
// dead letter keeps its request.
func (s *submission) endUnknown(ctx context.Context, cause error) error {
	t := s.task
	if found, _ := s.lookUp(ctx, true); found != nil {
		return s.submitted(ctx, *found)
	}
	if ctx.Err() != nil {
		return hold.Return()
	}
	f := because(errcode.New(errcode.SubmissionUnknown, "it cannot be known whether upstream %s accepted job %s; it was not submitted again",
		t.execution().GetUpstream(), t.held.Name().ID), cause)
	if err := t.held.Bury(ctx, f); err != nil {
		return err
	}
	return t.fail(ctx, f)
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

// releaseReserved gives back what was reserved for a dead letter.
func (s *submission) releaseReserved() {
	if s.reserved != nil {
		s.reserved()
		s.reserved = nil
	}
}

// certainlyNot records that the upstream does not have the task of this attempt. Of an earlier
// attempt whose outcome is not known that says nothing.
func (s *submission) certainlyNot() {
	if x := s.task.execution(); !x.GetBound() {
		s.task.held.Request.Heard(x.GetAttempt())
	}
}
