package consumer

import (
	"context"
	"fmt"
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/clock"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// A submission whose outcome nobody knows binds the task to its upstream and key
// for good (Execution.bound): no refusal of a later submission proves that the
// first was not accepted, and only there does the upstream know the job again.

// takeOverAfter is how long after submit_until a taker waits before it calls a
// submission unknown: clocks differ, each by clock.Limit from the broker's at most, and
// the owner's answer may be on its way.
const takeOverAfter = 2 * clock.Limit

// submitBound goes on where an earlier submission may have been accepted: only
// there, and only with the same key, does the upstream know it again.
func (j *videoJob) submitBound(ctx context.Context) Outcome {
	a := routes.Account(j.entry.Job.GetExecution())
	if !j.HasAccount(a) {
		return j.failUnsubmitted(ctx, fault.New(fault.UpstreamRemoved, "upstream %s is not configured any more", a))
	}
	room, out, ok := j.roomToSubmit(ctx)
	if !ok {
		return out
	}
	defer room() // where it is not submitted
	if next, ok := j.Routes.Again(); !ok {
		return j.holdUntil(soon(next))
	}
	j.assigned.resume(j.Routes, a)
	return j.submitTo(ctx, a, room)
}

// failUnsubmitted ends a task that is not submitted. Where an earlier submission
// may have been accepted after all, that is what its end says.
func (j *videoJob) failUnsubmitted(ctx context.Context, f *fault.Error) Outcome {
	if outcomeUnknown(j.entry.Job) {
		return j.endUnknown(ctx, f)
	}
	return j.fail(ctx, f)
}

// outcomeUnknown reports whether the upstream may have the task without anybody
// knowing it. A task stays bound once it is submitted, and its id is known then.
func outcomeUnknown(job task.Job) bool {
	x := job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING || x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && x.GetBound()
}

// refusedAgain is a refusal after a submission whose outcome is not known: it is
// about this one only, so the task stays where it is, or ends as unknown.
func (j *videoJob) refusedAgain(ctx context.Context, s upstream.Submission) Outcome {
	if s.Verdict == upstream.RefusedForGood {
		return j.endUnknown(ctx, s.Err)
	}
	return j.requeue(ctx, s.Err, time.Now().Add(j.backoff(s.Err)))
}

// unknown ends a task that the upstream may or may not have. It is submitted
// again only where the route says that the upstream honours the key.
func (j *videoJob) unknown(ctx context.Context, cause *upstream.Error) Outcome {
	if ctx.Err() != nil {
		// Cut off by the end of the grace period. Whoever takes the task waits
		// until submit_until has passed and decides then.
		return Nak()
	}
	return j.giveUpSubmission(ctx, cause)
}

func (j *videoJob) giveUpSubmission(ctx context.Context, cause error) Outcome {
	if j.OnUnknownOutcome == config.OnUnknownResubmit && j.video().GetProtocol() == j.Wire.Name {
		return j.resubmit(ctx)
	}
	return j.endUnknown(ctx, cause)
}

// endUnknown ends a task that the upstream may or may not have; a dead letter
// keeps its request.
func (j *videoJob) endUnknown(ctx context.Context, cause error) Outcome {
	f := fault.New(fault.SubmissionUnknown, "nobody can know whether upstream %s accepted job %s; it was not submitted again", j.upstreamName(), j.name.ID)
	f = because(f, cause)
	if out, ok := j.bury(ctx, f); !ok {
		return out
	}
	return j.fail(ctx, f)
}

func (j *videoJob) resubmit(ctx context.Context) Outcome {
	now, err := j.Broker.Clock().Now()
	if err != nil {
		return j.unjudged()
	}
	if f := j.tooLate(now); f != nil {
		return j.endUnknown(ctx, f)
	}
	room, out, ok := j.roomToSubmit(ctx)
	if !ok {
		return out
	}
	defer room() // where it is not submitted
	for wait, ok := j.backoff(&upstream.Error{}), false; !ok; {
		if broker.Wait(j.fetching, wait) != nil {
			return Nak()
		}
		var next time.Time
		next, ok = j.Routes.Again()
		wait = time.Until(soon(next))
	}
	// The key that the upstream honours is honoured where it was sent first.
	a := routes.Account(j.entry.Job.GetExecution())
	if !j.HasAccount(a) {
		return j.endUnknown(ctx, fmt.Errorf("upstream %s is not configured any more", a))
	}
	j.assigned.resume(j.Routes, a)
	return j.submitTo(ctx, a, room)
}

// takeOverSubmission decides about a task that was found in submitting.
func (j *videoJob) takeOverSubmission(ctx context.Context) Outcome {
	x := j.entry.Job.GetExecution()
	if slices.Contains(j.unsent, j.entry.Nonce) {
		// Our own commit, of which we did not hear in time: the request was never
		// begun, so the task is free. That the writer is this process proves nothing:
		// the process may have held the task before, and begun the request then.
		e, err := j.requeued(time.Now(), "not_sent")
		if out, ok := j.commitNext(ctx, e, err); !ok {
			return out
		}
		return HoldFor(0)
	}
	now, err := j.Broker.Clock().Now()
	if err != nil {
		return j.unjudged() // its owner may be writing the request
	}
	decide := x.GetSubmitUntil().AsTime().Add(takeOverAfter)
	if now.Before(decide) {
		j.confirmLater()
		return Hold(decide)
	}
	return j.giveUpSubmission(ctx, nil)
}
