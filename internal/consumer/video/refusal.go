package video

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// refusedBy brings a task that was certainly not accepted back to the queue, or ends it
// where no key is left to try.
func (s *submission) refusedBy(ctx context.Context, sent upstream.Submission) error {
	if s.task.execution().GetBound() {
		return s.refusedAgain(ctx, sent)
	}
	notBefore, more := s.task.assigned.elsewhere(s.task.route.Chooser, sent, s.backoff(sent.Err))
	if !more {
		return s.refusedForGood(ctx, sent.Err)
	}
	return s.requeue(ctx, sent.Err, notBefore)
}

func (s *submission) refusedForGood(ctx context.Context, cause *upstream.Error) error {
	f := routes.Fault(cause)
	f.Code = errcode.UpstreamRefused
	return s.task.held.Persist(ctx, func() (task.Event, error) { return task.Refused(s.task.video(), time.Now(), f.TaskError()) })
}

// refusedAgain is a refusal after a submission whose outcome is not known: it is about this
// one only, so the task stays where it is, or ends as unknown.
func (s *submission) refusedAgain(ctx context.Context, sent upstream.Submission) error {
	if sent.Verdict == upstream.RefusedForGood {
		return s.endUnknown(ctx, sent.Err)
	}
	return s.requeue(ctx, sent.Err, time.Now().Add(s.backoff(sent.Err)))
}

// requeue brings a task that an upstream refused back to the queue, until notBefore.
func (s *submission) requeue(ctx context.Context, cause *upstream.Error, notBefore time.Time) error {
	if err := s.task.held.Persist(ctx, func() (task.Event, error) { return s.requeued(notBefore, refusal(cause)) }); err != nil {
		return err
	}
	return s.task.holdUntil(notBefore)
}

// requeued is the event that brings the task back to the queue until notBefore. Others
// compare that with their clocks, so that a wrong clock has no one wait.
func (s *submission) requeued(notBefore time.Time, refusal string) (task.Event, error) {
	if _, err := s.task.holder().Broker.Clock().Now(); err != nil {
		notBefore = s.task.video().GetCreatedAt().AsTime()
	}
	return task.Requeued(s.task.video(), time.Now(), notBefore, refusal)
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
