package consumer

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// takeOverAfter is how long after submit_until a taker waits before it calls a
// submission unknown: clocks differ, and the owner's answer may be on its way.
const takeOverAfter = 10 * time.Second

// submit brings a queued task to the upstream: the phase submitting is committed
// before the request is written, so that no other replica submits too.
func (j *videoJob) submit(ctx context.Context) Outcome {
	now := time.Now()
	x := j.entry.Job.GetExecution()
	if f := j.tooLate(now); f != nil {
		return j.fail(ctx, f)
	}
	if wait := x.GetNotBefore(); wait != nil && now.Before(wait.AsTime()) {
		return Hold(wait.AsTime())
	}
	if out, ok := j.choose(); !ok {
		return out
	}
	return j.submitTo(ctx, j.place.lease.Account(), j.Timeouts.Deadline)
}

// submitTo commits where the request goes, and sends it.
func (j *videoJob) submitTo(ctx context.Context, a pool.Account, deadline time.Duration) Outcome {
	request, out, ok := j.request(ctx, a)
	if !ok {
		return out
	}
	now := time.Now()
	e, err := task.Submitting(j.video(), now, task.Submission{
		Upstream: a.Upstream, Key: a.Key, Until: now.Add(j.Timeouts.Create), Deadline: now.Add(deadline),
	})
	if out, ok := j.commitNext(ctx, e, err); !ok {
		return out
	}
	return j.create(ctx, a, request)
}

// tooLate says which limit a task that is not submitted has passed.
func (j *videoJob) tooLate(now time.Time) *fault.Error {
	x, id := j.entry.Job.GetExecution(), j.name.ID
	switch {
	case j.entry.Job.GetExpiresAt() != nil && now.After(j.entry.Job.GetExpiresAt().AsTime()):
		return fault.New(fault.Expired, "job %s was not submitted before its expires_at", id)
	case x.GetFirstSubmitAt() == nil && x.GetQueueDeadline() != nil && now.After(x.GetQueueDeadline().AsTime()):
		return fault.New(fault.QueueTimeout, "job %s waited longer than the queue timeout of route %s", id, j.Name)
	case x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime()):
		return fault.New(fault.DeadlineExceeded, "job %s: the upstream refused for now until the deadline of route %s", id, j.Name)
	}
	return nil
}

// request is the JSON for the upstream: the client's own bytes, but for the
// model's name where the route maps it.
func (j *videoJob) request(ctx context.Context, a pool.Account) ([]byte, Outcome, bool) {
	raw, err := itemBody(ctx, j.Bodies, j.item)
	if errors.Is(err, broker.ErrBodyLost) {
		return nil, j.fail(ctx, fault.New(fault.InputLost, "job %s: %w", j.name.ID, err)), false
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
		return nil, j.fail(ctx, fault.New(fault.Internal, "job %s: map the model: %w", j.name.ID, err)), false
	}
	return raw, Outcome{}, true
}

// itemBody is the body of a work item, wherever it stands.
func itemBody(ctx context.Context, bodies *broker.Bodies, item *genbusv1.WorkItem) ([]byte, error) {
	if item.GetBodyRef() == nil {
		return item.GetBody(), nil
	}
	return bodies.Get(ctx, publisher.BodyOf(item.GetBodyRef()))
}

// create calls the upstream once and commits what became of it.
func (j *videoJob) create(ctx context.Context, a pool.Account, request []byte) Outcome {
	client, ok := j.Client(a)
	if !ok {
		return j.upstreamRemoved(ctx, a)
	}
	x := j.entry.Job.GetExecution()
	j.began = x.GetAttempt()
	call, cancel := context.WithDeadlineCause(ctx, x.GetSubmitUntil().AsTime(), errors.New("the create timeout has passed"))
	defer cancel()
	begin := time.Now()
	call, span := j.span(call, "genbus.video.create")
	s := client.Create(call, upstream.VideoCreate{JobID: j.name.ID, Body: request, Resubmission: j.place.sentBefore(a, x.GetAttempt())})
	var cause error // not s.Err itself: a nil *Error is no nil error
	if s.Err != nil {
		cause = s.Err
	}
	endSpan(span, cause)
	j.ups[a.Upstream].Request("create", s.Verdict.String(), statusOf(cause), time.Since(begin))
	return j.afterCreate(ctx, s)
}

func (j *videoJob) upstreamRemoved(ctx context.Context, a pool.Account) Outcome {
	return j.fail(ctx, fault.New(fault.UpstreamRemoved, "job %s: upstream %s is not configured any more; its task there is %q",
		j.name.ID, a.Upstream, j.video().GetUpstreamTaskId()))
}

func (j *videoJob) afterCreate(ctx context.Context, s upstream.Submission) Outcome {
	j.place.report(s.Err)
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
	notBefore, more := j.elsewhere(s)
	if !more {
		return j.refusedForGood(ctx, s.Err)
	}
	out, ok := j.persist(ctx, func() (task.Event, error) {
		return task.Requeued(j.video(), time.Now(), notBefore, refusal(s.Err))
	})
	if !ok {
		return out
	}
	return Hold(notBefore)
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
		if !waitOrStop(ctx, retryLog) {
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
	j.Logger.Info("video task refused", j.attrs("code", cause.Code)...)
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
		})
	})
	switch {
	case ok:
		j.Logger.Info("video task submitted", j.attrs("upstream", j.upstreamName(), "upstream_id", s.UpstreamID)...)
		return j.holdForPoll()
	case j.video().GetUpstreamTaskId() == s.UpstreamID:
		return out // our own earlier write
	default:
		return j.orphaned(ctx, s, out)
	}
}

// orphaned keeps the id of an upstream task that no job owns.
func (j *videoJob) orphaned(ctx context.Context, s upstream.Submission, out Outcome) Outcome {
	f := fault.New(fault.OrphanedSubmission, "upstream %s has task %s for job %s, which could no longer record it", j.place.upstream(), s.UpstreamID, j.name.ID)
	letter := deadItem(j.item, f)
	letter.Upstream, letter.UpstreamKey = j.place.upstream(), j.place.key()
	letter.UpstreamTaskId, letter.UpstreamTicket = s.UpstreamID, s.Ticket
	for {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		err := j.dead.Put(try, letter, j.name.ID, strconv.FormatUint(uint64(j.entry.Job.GetExecution().GetAttempt()), 10))
		cancel()
		if err == nil {
			return out
		}
		j.Logger.Error("an orphaned submission could not be kept", j.attrs("upstream", j.place.upstream(), "upstream_id", s.UpstreamID, "error", err)...)
		if !waitOrStop(ctx, retryLog) {
			return out // the log line is all that is left
		}
	}
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

func (j *videoJob) giveUpSubmission(ctx context.Context, cause *upstream.Error) Outcome {
	if j.OnUnknownOutcome == "resubmit" {
		return j.resubmit(ctx)
	}
	f := fault.New(fault.SubmissionUnknown, "nobody can know whether upstream %s accepted job %s; it was not submitted again", j.upstreamName(), j.name.ID)
	if cause != nil {
		f.Message += ": " + cause.Error()
		f.UpstreamCode, f.UpstreamHTTPStatus, f.UpstreamRequestID = cause.Code, cause.HTTPStatus, cause.RequestID
	}
	if out, ok := j.bury(ctx, f); !ok {
		return out
	}
	return j.fail(ctx, f)
}

func (j *videoJob) resubmit(ctx context.Context) Outcome {
	if f := j.tooLate(time.Now()); f != nil {
		return j.fail(ctx, f)
	}
	if !waitOrStop(j.fetching, j.backoff(&upstream.Error{})) {
		return Nak()
	}
	// The key that the upstream honours is honoured where it was sent first.
	a := routes.Account(j.entry.Job.GetExecution())
	j.place.resume(j.Routes, a)
	return j.submitTo(ctx, a, j.Timeouts.Deadline)
}

// upstreamName is the upstream that the log names.
func (j *videoJob) upstreamName() string { return j.entry.Job.GetExecution().GetUpstream() }

// takeOverSubmission decides about a task that was found in submitting.
func (j *videoJob) takeOverSubmission(ctx context.Context) Outcome {
	x := j.entry.Job.GetExecution()
	if x.GetWriter() == j.Log.Writer() && j.began < x.GetAttempt() {
		// Our own commit, of which we did not hear in time: the request was never
		// begun, so the task is free.
		e, err := task.Requeued(j.video(), time.Now(), time.Now(), "not_sent")
		if out, ok := j.commitNext(ctx, e, err); !ok {
			return out
		}
		return HoldFor(0)
	}
	decide := x.GetSubmitUntil().AsTime().Add(takeOverAfter)
	if time.Now().Before(decide) {
		j.confirmLater()
		return Hold(decide)
	}
	return j.giveUpSubmission(ctx, nil)
}
