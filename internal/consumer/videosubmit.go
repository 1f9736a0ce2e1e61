package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// submit brings a queued task to the upstream: the phase submitting is committed
// before the request is written, so that no other replica submits too.
func (j *videoJob) submit(ctx context.Context) Outcome {
	now, err := j.Broker.Clock().Now()
	if err != nil {
		return j.unjudged()
	}
	x := j.entry.Job.GetExecution()
	if f := j.tooLate(now); f != nil {
		return j.failUnsubmitted(ctx, f)
	}
	if j.video().GetProtocol() != j.Wire.Name {
		return j.failUnsubmitted(ctx, fault.New(fault.UpstreamRemoved, "job %s is written in protocol %s, and route %s speaks %s now",
			j.name.ID, j.video().GetProtocol(), j.Name, j.Wire.Name))
	}
	if wait := x.GetNotBefore(); wait != nil && now.Before(wait.AsTime()) {
		return j.holdUntil(wait.AsTime())
	}
	if x.GetBound() {
		return j.submitBound(ctx)
	}
	if j.hasLeftLine() {
		return j.leaveLine(ctx)
	}
	release, err := j.Letters.Reserve(ctx, j.name.Tenant)
	if err != nil {
		return j.waitForLetters(ctx, err)
	}
	defer release()
	room, out, ok := j.roomToSubmit(ctx)
	if !ok {
		return out
	}
	defer room() // where it is not submitted
	if until, ok := j.choose(); !ok {
		return j.holdUntil(until)
	}
	return j.submitTo(ctx, j.assigned.lease.Account(), room)
}

// holdUntil waits, but not beyond the first limit that the task would pass.
func (j *videoJob) holdUntil(at time.Time) Outcome {
	if _, err := j.Broker.Clock().Now(); err != nil {
		return j.unjudged() // nor is it known how long that is
	}
	x := j.entry.Job.GetExecution()
	limits := []*timestamppb.Timestamp{j.entry.Job.GetExpiresAt(), x.GetDeadline()}
	if x.GetFirstSubmitAt() == nil {
		limits = append(limits, x.GetQueueDeadline())
	}
	return Hold(earliest(at, limits...))
}

// earliest is at, or just after the first of the limits that passes before it; a
// limit may be nil.
func earliest(at time.Time, limits ...*timestamppb.Timestamp) time.Time {
	for _, limit := range limits {
		if limit != nil && limit.AsTime().Before(at) {
			at = limit.AsTime().Add(time.Millisecond)
		}
	}
	return at
}

// submitTo commits where the request goes, and sends it. A place that was taken right
// after a refusal, by the route as it was then, may be with an account that the route does
// not have any more: then the task chooses anew before anything is committed.
func (j *videoJob) submitTo(ctx context.Context, a pool.Account, room tasklog.Release) Outcome {
	if !j.HasAccount(a) {
		j.assigned.leave()
		return HoldFor(0)
	}
	request, out, ok := j.request(ctx, a)
	if !ok {
		return out
	}
	if out, ok := j.submitting(ctx, a, room); !ok {
		return out
	}
	return j.create(ctx, a, request)
}

// submitting commits that the task is submitted, into the room that it has.
func (j *videoJob) submitting(ctx context.Context, a pool.Account, room tasklog.Release) (Outcome, bool) {
	defer room()
	now, err := j.Broker.Clock().Now()
	if err != nil { // takers compare their clocks with submit_until
		j.assigned.leave()
		return j.unjudged(), false
	}
	e, err := task.Submitting(j.video(), now, task.Submission{
		Upstream: a.Upstream, Key: a.Key, Until: now.Add(j.Timeouts.Create), Deadline: now.Add(j.Timeouts.Deadline),
	})
	return j.commitNext(ctx, e, err)
}

// tooLate says which limit a task that is not submitted has passed.
func (j *videoJob) tooLate(now time.Time) *fault.Error {
	if f := notStarted(j.entry.Job, now); f != nil {
		return f
	}
	x, id := j.entry.Job.GetExecution(), j.name.ID
	switch {
	// What was tried before, and is to be tried again, expires too.
	case j.entry.Job.GetExpiresAt() != nil && now.After(j.entry.Job.GetExpiresAt().AsTime()):
		return fault.New(fault.Expired, "job %s was not submitted before its expires_at", id)
	case x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime()):
		return fault.New(fault.DeadlineExceeded, "job %s: the upstream refused for now until the deadline of route %s", id, j.Name)
	}
	return nil
}

// request is the JSON for the upstream: the client's own bytes, but for the
// model's name where the route maps it.
func (j *videoJob) request(ctx context.Context, a pool.Account) ([]byte, Outcome, bool) {
	raw, err := j.body.read(ctx, j.Bodies, j.item, time.Now())
	if errors.Is(err, broker.ErrBodyLost) {
		return nil, j.failUnsubmitted(ctx, fault.New(fault.InputLost, "job %s: %w", j.name.ID, err)), false
	}
	if err != nil {
		j.Logger.Warn("the request's body could not be read", j.attrs("error", err)...)
		return nil, HoldFor(retryLog), false
	}
	mapped := j.ModelFor(a.Upstream, j.item.GetModel())
	if mapped == j.item.GetModel() {
		return raw, Outcome{}, true
	}
	raw, err = j.Wire.Bodies.SetModel(raw, mapped)
	if err != nil {
		return nil, j.failUnsubmitted(ctx, fault.New(fault.Internal, "job %s: map the model: %w", j.name.ID, err)), false
	}
	return raw, Outcome{}, true
}

// create calls the upstream once and commits what became of it.
func (j *videoJob) create(ctx context.Context, a pool.Account, request []byte) Outcome {
	x := j.entry.Job.GetExecution()
	client, ok := j.Client(a) // submitTo has seen it: this step keeps its route
	now, err := j.Broker.Clock().Now()
	if !ok || err != nil || !now.Before(x.GetSubmitUntil().AsTime()) {
		return j.notSent(ctx) // the commit took longer than the request may, or the clock was set meanwhile
	}
	j.began, j.unsent = x.GetAttempt(), nil
	call, cancel := context.WithDeadlineCause(ctx, x.GetSubmitUntil().AsTime(), errors.New("the create timeout has passed"))
	defer cancel()
	begin := time.Now()
	call, span := j.startCall(call, "genbus.video.create", j.name, j.Name, x)
	s := client.Create(call, upstream.VideoCreate{JobID: j.name.ID, Body: request, Resubmission: j.assigned.sentBefore(a, x.GetAttempt())})
	var cause error // not s.Err itself: a nil *Error is no nil error
	if s.Err != nil {
		cause = s.Err
	}
	endSpan(span, cause)
	j.ups.count(a.Upstream, "create", s.Verdict.String(), statusOf(cause), time.Since(begin))
	return j.afterCreate(ctx, s)
}

// notSent frees a task whose request was never begun.
func (j *videoJob) notSent(ctx context.Context) Outcome {
	j.assigned.leave()
	out, ok := j.persist(ctx, func() (task.Event, error) { return j.requeued(time.Now(), "not_sent") })
	if !ok {
		return out
	}
	return HoldFor(0)
}

// requeued is the event that brings the task back to the queue until notBefore. Others
// compare that with their clocks, so that a wrong clock has nobody wait.
func (j *videoJob) requeued(notBefore time.Time, refusal string) (task.Event, error) {
	if _, err := j.Broker.Clock().Now(); err != nil {
		notBefore = j.video().GetCreatedAt().AsTime()
	}
	return task.Requeued(j.video(), time.Now(), notBefore, refusal)
}

// upstreamRemoved ends a task that nobody can read any more. Its letter lets an
// operator attach it once the account is configured again.
func (j *videoJob) upstreamRemoved(ctx context.Context, a pool.Account) Outcome {
	f := fault.New(fault.UpstreamRemoved, "job %s: upstream %s is not configured any more; its task there is %q",
		j.name.ID, a.Upstream, j.video().GetUpstreamTaskId())
	if out, ok := j.bury(ctx, f); !ok {
		return out
	}
	return j.fail(ctx, f)
}

func (j *videoJob) afterCreate(ctx context.Context, s upstream.Submission) Outcome {
	j.assigned.report(j.Accounts, poolJob(j.name), s.Err)
	switch s.Verdict {
	case upstream.Accepted:
		return j.submitted(ctx, s)
	case upstream.RefusedForGood, upstream.RefusedForNow:
		return j.refusedBy(ctx, s)
	default:
		return j.unknown(ctx, s.Err)
	}
}

// refusedBy brings a task that was certainly not accepted back to the queue, or
// ends it where nobody is left to try.
func (j *videoJob) refusedBy(ctx context.Context, s upstream.Submission) Outcome {
	if j.entry.Job.GetExecution().GetBound() {
		return j.refusedAgain(ctx, s)
	}
	notBefore, more := j.elsewhere(s)
	if !more {
		return j.refusedForGood(ctx, s.Err)
	}
	return j.requeue(ctx, s.Err, notBefore)
}

// requeue brings a task that an upstream refused back to the queue, until
// notBefore.
func (j *videoJob) requeue(ctx context.Context, cause *upstream.Error, notBefore time.Time) Outcome {
	out, ok := j.persist(ctx, func() (task.Event, error) { return j.requeued(notBefore, refusal(cause)) })
	if !ok {
		return out
	}
	return j.holdUntil(notBefore)
}

// persist commits what is known of a submission, again and again while the log
// does not answer: forgotten, it would count as unknown.
func (j *videoJob) persist(ctx context.Context, next func() (task.Event, error)) (Outcome, bool) {
	for {
		e, err := next()
		out, ok := j.commitNext(ctx, e, err)
		if ok || out.verb != hold || j.phase() != genbusv1.JobPhase_JOB_PHASE_SUBMITTING {
			return out, ok
		}
		if broker.Wait(ctx, retryLog) != nil {
			return Nak(), false
		}
	}
}

func (j *videoJob) refusedForGood(ctx context.Context, cause *upstream.Error) Outcome {
	out, ok := j.persist(ctx, func() (task.Event, error) {
		return task.Failed(j.entry.Job, time.Now(), refused(cause).TaskError())
	})
	if !ok {
		return out
	}
	j.Logger.Info("video task refused", j.attrs(telemetry.KeyUpstreamCode, cause.Code)...)
	return j.finish(ctx)
}

func refused(err *upstream.Error) *fault.Error {
	f := routes.Fault(err)
	f.Code = fault.UpstreamRefused
	return f
}

// refusal is the word that stays visible in the task.
func refusal(err *upstream.Error) string {
	if err.Code != "" {
		return fault.Clip(err.Code, 64)
	}
	return "refused_for_now"
}

// backoff is what the upstream asked for, or 1 s doubled with each attempt up to
// a minute, with a fifth of jitter.
func (j *videoJob) backoff(err *upstream.Error) time.Duration {
	if err.RetryAfter > 0 {
		return err.RetryAfter
	}
	d := time.Second << min(max(j.entry.Job.GetExecution().GetAttempt(), 1)-1, 6)
	return jittered(min(d, time.Minute), 0.2)
}

// jittered varies d by up to the given part, either way.
func jittered(d time.Duration, part float64) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*part*float64(d))
}

// submitted records the upstream's id. From here on it is paid for, so the write
// is repeated until its fate is known; an id that the log can no longer take is
// kept as a dead letter.
func (j *videoJob) submitted(ctx context.Context, s upstream.Submission) Outcome {
	out, ok := j.persist(ctx, func() (task.Event, error) {
		return task.Submitted(j.video(), time.Now(), task.Receipt{
			UpstreamID: s.UpstreamID, Ticket: fault.Clip(s.Ticket, 256), Status: fault.Clip(s.State.Status, 128),
			Size: fault.Clip(s.State.Size, maxDimension), Seconds: fault.Clip(s.State.Seconds, maxDimension),
		})
	})
	switch {
	case ok:
		j.metrics.Submitted(time.Since(j.video().GetCreatedAt().AsTime()))
		j.Logger.Info("video task submitted", j.attrs("upstream", j.upstreamName(), telemetry.KeyUpstreamID, s.UpstreamID)...)
		return j.holdForPoll()
	case j.video().GetUpstreamTaskId() == s.UpstreamID:
		return out // our own earlier write
	default:
		return j.orphaned(ctx, s, out)
	}
}

// upstreamName is the upstream that the log names.
func (j *videoJob) upstreamName() string { return j.entry.Job.GetExecution().GetUpstream() }
