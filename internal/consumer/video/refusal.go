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

// refusedBy requeues a job that was certainly not accepted, or ends it if no key is left to try.
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
	if cause.Denial == upstream.NotDenied {
		f.Code = errcode.UpstreamRefused
	}
	return s.task.held.Persist(ctx, func() (task.Event, error) { return task.Refused(s.task.video(), time.Now(), f.TaskError()) })
}

// refusedAgain handles the refusal of a resubmission after an unknown outcome. The refusal applies
// only to the latest submission, so the job stays with its key or ends as unknown.
func (s *submission) refusedAgain(ctx context.Context, sent upstream.Submission) error {
	if sent.Verdict == upstream.RefusedForGood {
		return s.endUnknown(ctx, sent.Err)
	}
	return s.requeue(ctx, sent.Err, time.Now().Add(s.backoff(sent.Err)))
}

// requeue returns a refused job to the queue until notBefore.
func (s *submission) requeue(ctx context.Context, cause *upstream.Error, notBefore time.Time) error {
	if err := s.task.held.Persist(ctx, func() (task.Event, error) { return s.requeued(notBefore, refusal(cause)) }); err != nil {
		return err
	}
	return s.task.holdUntil(notBefore)
}

// requeued returns the event that requeues the job until notBefore. Other replicas compare
// notBefore with their clocks, so requeued sets no delay while this replica's clock is wrong.
func (s *submission) requeued(notBefore time.Time, refusal string) (task.Event, error) {
	if _, err := s.task.holder().Broker.Clock().Now(); err != nil {
		notBefore = s.task.video().GetCreatedAt().AsTime()
	}
	return task.Requeued(s.task.video(), time.Now(), notBefore, refusal)
}

// backoff returns the delay that the upstream requested. By default it returns 1 s, doubled after
// each attempt, up to a minute, with a jitter of 20%.
func (s *submission) backoff(err *upstream.Error) time.Duration {
	if err.RetryAfter > 0 {
		return err.RetryAfter
	}
	d := time.Second << min(max(s.task.execution().GetAttempt(), 1)-1, 6)
	return hold.Jittered(min(d, time.Minute), 0.2)
}

// refusal returns the reason to record in the job.
func refusal(err *upstream.Error) string {
	if err.Code != "" {
		return errcode.Clip(err.Code, 64)
	}
	return "refused_for_now"
}
