package video

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// pollTimeout bounds one poll. A poll that times out reveals nothing about the task and is retried.
const pollTimeout = 30 * time.Second

// polling polls a submitted job's upstream until the task has ended.
type polling struct {
	task      *heldTask
	archiving *archiving
	failing   *atomic.Pointer[genbusv1.HeldJob] // the job's

	answer   *upstream.VideoState  // to the last poll, until it is committed
	failures int                   // consecutive failed polls
	failed   error                 // the last failure; nil after a good poll
	missing  time.Time             // of the first poll since which every poll says that the task is unknown; else zero
	polls    int                   // number of polls by this holder
	last     telemetry.PollOutcome // outcome of the previous poll
}

// mayRest reports whether the job is being polled and has no uncommitted answer.
func (p *polling) mayRest() bool {
	phase := p.task.held.Record.Phase()
	polled := phase == genbusv1.JobPhase_JOB_PHASE_SUBMITTED || phase == genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS
	return polled && p.answer == nil && !p.archiving.began()
}

// poll polls the upstream once. Failed polls do not fail a job. Its deadline does, but only after
// this process has polled at least once, because the upstream may have finished paid work while the
// job had no holder. While the clock is wrong, the deadline is not enforced.
func (p *polling) poll(ctx context.Context) error {
	t := p.task
	x := t.execution()
	if x.GetUnconfirmed() == "" {
		t.held.Request.Release() // a submitted job no longer needs its request body
	}
	if time.Now().Before(t.pollAt) { // woken early
		if p.answer != nil {
			return p.record(ctx, false)
		}
		return hold.Until(t.pollAt)
	}
	a, table := routes.UpstreamKey(x), t.runner.shared.Routes
	t.assigned.resume(table, a) // the job counts against its key even without a poll
	if t.pollAt.IsZero() {
		t.pollAt = time.Now()
	}
	if !t.slot && p.mayRest() {
		t.unasked = true
		return hold.Until(t.pollAt) // already due, so the job rests until it has a slot
	}
	client, ok := table.Client(t.video())
	if !ok {
		t.releaseSlot()
		return p.upstreamRemoved(ctx, a.Upstream)
	}
	finished := x.GetArchiveUntil() != nil || p.archiving.result != nil
	now, wrong := t.holder().Broker.Clock().Now()
	if wrong == nil && late(x, now) && !finished && p.polls > 0 && (p.failed != nil || !p.promised()) {
		t.releaseSlot()
		return t.fail(ctx, p.unfinished(a.Upstream))
	}
	state, err := p.ask(ctx, client)
	switch {
	case errors.Is(err, hold.ErrShutdown):
		return hold.Return()
	case finished && (err != nil || state.Progression != upstream.Completed || state.Err != nil):
		return p.afterLostResult(ctx, err)
	case err != nil:
		return p.afterError(ctx, err)
	}
	p.failures, p.failed, p.missing = 0, nil, time.Time{}
	p.failing.Store(nil)
	p.answer = &state
	t.schedulePoll(0) // before the commit, which may fail
	return p.record(ctx, true)
}

// upstreamRemoved ends a job whose upstream is no longer configured. The dead letter lets an
// operator attach the task after configuring the key again.
func (p *polling) upstreamRemoved(ctx context.Context, name string) error {
	t := p.task
	f := errcode.New(errcode.UpstreamRemoved, "job %s: upstream %s is no longer configured; its task there is %q",
		t.held.Name().ID, name, t.video().GetUpstreamTaskId())
	if err := t.held.Bury(ctx, f); err != nil {
		return err
	}
	return t.fail(ctx, f)
}

// record commits the answer to the last poll. If the commit fails, record retries it without
// polling again until the next poll is due, so that failed commits do not cause extra polls. first
// is false for a retry.
func (p *polling) record(ctx context.Context, first bool) error {
	outcome := p.afterPoll(ctx, *p.answer, first)
	if wait, waits := errors.AsType[*hold.WaitError](outcome); waits && !wait.Until.Before(p.task.pollAt) {
		p.answer = nil
	}
	return outcome
}

// unfinished returns the error for a job that has passed its deadline. If the last polls failed,
// the upstream may have finished the task, so the error includes the failure.
func (p *polling) unfinished(name string) *errcode.Error {
	job, id := p.task.held.Name().ID, p.task.video().GetUpstreamTaskId()
	if p.failed == nil {
		return errcode.New(errcode.DeadlineExceeded, "job %s: upstream %s had not finished task %s by the deadline", job, name, id)
	}
	return because(errcode.New(errcode.DeadlineExceeded, "job %s: upstream %s may have finished task %s by the deadline, but polls fail (%d in a row)",
		job, name, id, p.failures), p.failed)
}

func late(x *genbusv1.Execution, now time.Time) bool {
	return x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime())
}

// defaultMissing outlasts the time that servers take to store a new task, and the restart of one
// that keeps tasks in memory behind a load balancer.
const defaultMissing = 10 * time.Minute

// afterError handles a failed poll. It fails the job if for long enough no poll has said anything but
// that the upstream does not know the task.
func (p *polling) afterError(ctx context.Context, err error) error {
	t := p.task
	if !upstream.AsError(upstream.OpPoll, err).Missing {
		p.missing = time.Time{}
		return p.afterFailure(err)
	}
	if p.missing.IsZero() {
		p.missing = time.Now()
	}
	outcome := p.afterFailure(err)
	if time.Since(p.missing) < t.runner.shared.Missing {
		return outcome
	}
	f := because(errcode.New(errcode.UpstreamFailed, "for %s, upstream %s has not known task %s",
		t.runner.shared.Missing, t.execution().GetUpstream(), t.video().GetUpstreamTaskId()), err)
	e, err := task.FailedUpstream(t.video(), time.Now(), task.Failure{Unknown: true, Status: "not_found", Err: f.TaskError()})
	return t.held.End(ctx, e, err)
}

func (p *polling) afterFailure(err error) error {
	p.failures++
	p.failed = err
	failing := &genbusv1.HeldJob{PollsFailed: uint32(p.failures), LastPollErrorAt: timestamppb.Now()}
	if e := upstream.AsError(upstream.OpPoll, err); e != nil {
		failing.LastPollError = e.Outline()
	} else {
		failing.LastPollError = "the upstream no longer reports the task as completed"
	}
	p.failing.Store(failing)
	p.count(telemetry.PollFailed)
	p.task.held.Logger().Debug("could not poll upstream", logged(err)...)
	p.task.schedulePoll(p.failures)
	return hold.Until(p.task.pollAt)
}

// logged returns the log attributes of a failed call. It omits the upstream's message, which may
// quote the prompt.
func logged(err error) []any {
	switch e := upstream.AsError(upstream.OpPoll, err); {
	case e == nil:
		return nil
	case e.HTTPStatus == 0: // the message is ours
		return []any{telemetry.KeyError, e.Message}
	default:
		return []any{telemetry.KeyHTTPStatus, e.HTTPStatus, telemetry.KeyUpstreamCode, e.Code}
	}
}

// afterLostResult handles a failed poll, or a poll that no longer reports the task as completed.
// After the time limit for the copy, the job completes with the result that this process already
// has. Without a result, polling continues until the deadline.
func (p *polling) afterLostResult(ctx context.Context, err error) error {
	t := p.task
	now, wrong := t.holder().Broker.Clock().Now()
	over := wrong == nil && !now.Before(t.execution().GetArchiveUntil().AsTime())
	switch {
	case over && p.archiving.result != nil:
		return p.archiving.complete(ctx, *p.archiving.result)
	case over && late(t.execution(), now):
		return t.fail(ctx, because(errcode.New(errcode.DeadlineExceeded,
			"job %s: upstream %s had finished task %s, but no longer reports its result",
			t.held.Name().ID, t.execution().GetUpstream(), t.video().GetUpstreamTaskId()), err))
	default:
		return p.afterFailure(err)
	}
}

func (p *polling) ask(ctx context.Context, client upstream.VideoClient) (upstream.VideoState, error) {
	t, r, stopping := p.task, p.task.runner, p.task.holder().Fetching
	if stopping.Err() != nil { // the process is stopping, and another replica can poll sooner
		return upstream.VideoState{}, context.Cause(stopping)
	}
	if !t.slot {
		if err := r.polls.acquireWait(stopping); err != nil {
			return upstream.VideoState{}, err
		}
		t.slot = true
	}
	defer t.releaseSlot()
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, errors.New("the poll timed out"))
	defer cancel()
	begin := time.Now()
	r.metrics.PollBegan(begin.Sub(t.pollAt))
	state, err := client.Poll(ctx, routes.Ref(t.video()))
	if err == nil && state.Missing() {
		err = &upstream.Error{Op: upstream.OpPoll, Message: "the upstream reports the task as " + state.Status, HTTPStatus: http.StatusOK, Reported: true, Missing: true}
	}
	r.shared.Routes.Polled(t.execution().GetUpstream(), err)
	verdict := "answered"
	if err != nil {
		verdict = "failed"
	}
	r.shared.calls.count(t.execution().GetUpstream(), "poll", verdict, statusOf(err), time.Since(begin))
	return state, err
}

// afterPoll commits an event if the upstream's answer warrants one. It counts the poll if first is
// set.
func (p *polling) afterPoll(ctx context.Context, s upstream.VideoState, first bool) error {
	t, now := p.task, time.Now()
	count := func(o telemetry.PollOutcome) {
		if first {
			p.count(o)
		}
	}
	switch {
	case s.Progression == upstream.Completed && s.Err == nil:
		count(telemetry.PollChanged)
		return p.archiving.complete(ctx, s)
	case s.Progression == upstream.Failed, s.Progression == upstream.Completed && p.overdue():
		e, err := task.FailedUpstream(t.video(), now, task.Failure{Unknown: s.Unknown, Status: errcode.Clip(s.Status, 128), Usage: usage(s), Err: failure(s)})
		count(telemetry.PollChanged)
		return t.held.End(ctx, e, err)
	case s.Progression == upstream.Completed && p.promised():
		// Another word for success would make an event, and restart the wait.
		count(telemetry.PollUnchanged)
		return hold.Until(t.pollAt)
	}
	e, worth, err := task.Observed(t.video(), now, task.Observation{
		Started: s.Progression != upstream.Queued, Status: errcode.Clip(s.Status, 128), Progress: s.Progress,
		Size: errcode.Clip(s.Size, maxDimension), Seconds: errcode.Clip(s.Seconds, maxDimension),
	})
	release := func() {}
	// Progress is optional, but the wait for a result starts with its event.
	if worth && err == nil && e.Job.GetStatus() == e.Previous && s.Progression != upstream.Completed {
		release, worth = t.holder().Log.Capacity.ReserveProgress(ctx, e)
	}
	if !worth && err == nil {
		count(telemetry.PollUnchanged)
		return hold.Until(t.pollAt)
	}
	defer release()
	count(telemetry.PollChanged)
	if err := t.held.Next(ctx, e, err); err != nil {
		return err
	}
	return hold.Until(t.pollAt)
}

// promised reports whether the job's latest event says that the upstream reported success.
func (p *polling) promised() bool {
	v := p.task.video()
	return v.GetExecution().GetPhase() == genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS &&
		upstream.ProgressionOf(v.GetUpstreamStatus()) == upstream.Completed
}

// overdue reports whether a result that the upstream promised will not be awaited any longer. The
// time counts from the event that recorded the promise, so a takeover does not restart it. The
// deadline ends the wait, too. While the clock is wrong, the wait goes on.
func (p *polling) overdue() bool {
	now, wrong := p.task.holder().Broker.Clock().Now()
	if wrong != nil || !p.promised() {
		return false
	}
	until := p.task.video().GetUpdatedAt().AsTime().Add(p.task.runner.shared.ResultWait)
	return !now.Before(until) || late(p.task.execution(), now)
}

// count counts a poll. It adds a span event only for the first poll, for a change, and when polls
// start to fail or recover. A span keeps its events in memory until it ends, and a job may be
// polled thousands of times.
func (p *polling) count(outcome telemetry.PollOutcome) {
	p.task.runner.metrics.PollEnded(outcome)
	p.polls++
	news := outcome == telemetry.PollChanged || p.last == "" || (outcome == telemetry.PollFailed) != (p.last == telemetry.PollFailed)
	p.last = outcome
	if span := p.task.held.Message.Span(); news && span.IsRecording() {
		span.AddEvent("poll", trace.WithAttributes(
			attribute.String("genbus.poll.outcome", string(outcome)), attribute.Int("genbus.poll.number", p.polls)))
	}
}
