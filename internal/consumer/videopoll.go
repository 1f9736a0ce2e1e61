package consumer

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// pollTimeout bounds one poll. A poll that times out is repeated; it says
// nothing of the task.
const pollTimeout = 30 * time.Second

// slowPoll is the most by which failing polls are stretched.
const slowPoll = 6

// holdForPoll holds the task until its next poll: the route's interval with
// jitter, longer while polls fail.
func (j *videoJob) holdForPoll() Outcome {
	j.schedulePoll()
	return Hold(j.pollAt)
}

func (j *videoJob) schedulePoll() {
	interval := j.Poll.Interval * time.Duration(min(j.failures+1, slowPoll))
	j.pollAt = time.Now().Add(jittered(interval, j.Poll.Jitter))
}

// poll asks the upstream once. Nothing that goes wrong here fails a task; only
// the deadline does, and that not before this process has asked: while the task
// had no holder, the upstream may have finished what is paid for. By a wrong clock no
// deadline passes.
func (j *videoJob) poll(ctx context.Context) Outcome {
	if x := j.entry.Job.GetExecution(); x.GetUnconfirmed() == "" {
		j.item = nil // a submitted task needs its request's body no more
	}
	if time.Now().Before(j.pollAt) { // woken for another reason
		if j.answer != nil {
			return j.record(ctx, false)
		}
		return Hold(j.pollAt)
	}
	x := j.entry.Job.GetExecution()
	a := routes.Account(x)
	client, ok := j.Routes.Client(j.video())
	if !ok {
		return j.upstreamRemoved(ctx, a)
	}
	j.assigned.resume(j.Routes, a)
	finished := x.GetArchiveUntil() != nil || j.result.known != nil
	now, wrong := j.Broker.Clock().Now()
	if wrong == nil && late(x, now) && !finished && j.asked {
		return j.fail(ctx, j.unfinished(a.Upstream))
	}
	state, err := j.askUpstream(ctx, client)
	j.asked = true
	switch {
	case errors.Is(err, ErrShutdown):
		return Nak()
	case finished && (err != nil || state.Progression != upstream.Completed):
		return j.afterLostResult(ctx, err)
	case err != nil:
		return j.afterFailedPoll(err)
	}
	j.failures, j.pollFailed = 0, nil
	j.answer = &state
	j.schedulePoll() // the commit may fail
	return j.record(ctx, true)
}

// record commits the answer to the last poll. A commit that fails is tried again, without
// another poll before the next one is due: a log that takes nothing must not multiply the
// polls of an upstream. first is false when it is tried again.
func (j *videoJob) record(ctx context.Context, first bool) Outcome {
	out := j.afterPoll(ctx, *j.answer, first)
	if out.verb != hold || !out.at.Before(j.pollAt) {
		j.answer = nil
	}
	return out
}

// unfinished is the end of a task at its deadline. An upstream whose last answers were no
// use may well have finished it: then the end says what they were.
func (j *videoJob) unfinished(name string) *fault.Error {
	id := j.video().GetUpstreamTaskId()
	if j.pollFailed == nil {
		return fault.New(fault.DeadlineExceeded, "job %s: upstream %s had not finished task %s by the deadline", j.name.ID, name, id)
	}
	return because(fault.New(fault.DeadlineExceeded, "job %s: it is not known whether upstream %s finished task %s by the deadline, as its polls fail (%d in a row)",
		j.name.ID, name, id, j.failures), j.pollFailed)
}

// because adds to an end what the upstream's last answer, or the lack of one, was; nil adds
// nothing.
func because(f *fault.Error, cause error) *fault.Error {
	if cause != nil {
		f.Message += ": " + cause.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](cause); ok {
		f.UpstreamCode, f.UpstreamHTTPStatus, f.UpstreamRequestID = up.Code, up.HTTPStatus, up.RequestID
	}
	return f
}

func late(x *genbusv1.Execution, now time.Time) bool {
	return x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime())
}

func (j *videoJob) afterFailedPoll(err error) Outcome {
	j.failures++
	j.pollFailed = err
	j.polled(telemetry.PollFailed)
	j.Logger.Debug("poll failed", j.attrs(logged(err)...)...)
	return j.holdForPoll()
}

// logged is what the log has of a failed call: not the upstream's words, which may
// quote the prompt.
func logged(err error) []any {
	switch e := upstream.AsError(upstream.OpPoll, err); {
	case e == nil:
		return nil
	case e.HTTPStatus == 0: // in our words
		return []any{telemetry.KeyError, e.Message}
	default:
		return []any{telemetry.KeyHTTPStatus, e.HTTPStatus, telemetry.KeyUpstreamCode, e.Code}
	}
}

// afterLostResult is a poll that no longer says what the upstream said before:
// that the task has completed. What is known of the result stands; a process that
// knows nothing of it asks until the deadline.
func (j *videoJob) afterLostResult(ctx context.Context, err error) Outcome {
	now, wrong := j.Broker.Clock().Now()
	over := wrong == nil && !now.Before(j.entry.Job.GetExecution().GetArchiveUntil().AsTime())
	switch {
	case over && j.result.known != nil:
		return j.complete(ctx, *j.result.known)
	case over && late(j.entry.Job.GetExecution(), now):
		return j.fail(ctx, because(fault.New(fault.DeadlineExceeded,
			"job %s: upstream %s had finished task %s, but says nothing of its result any more", j.name.ID, j.upstreamName(), j.video().GetUpstreamTaskId()), err))
	default:
		return j.afterFailedPoll(err)
	}
}

func (j *videoJob) askUpstream(ctx context.Context, client upstream.VideoClient) (upstream.VideoState, error) {
	select {
	case j.polls <- struct{}{}:
		defer func() { <-j.polls }()
	case <-j.fetching.Done(): // the process stops: another replica polls sooner
		return upstream.VideoState{}, context.Cause(j.fetching)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, pollTimeout, errors.New("the poll timed out"))
	defer cancel()
	begin := time.Now()
	j.metrics.PollBegan(begin.Sub(j.due))
	state, err := client.Poll(ctx, routes.Ref(j.video()))
	j.ups.count(j.upstreamName(), "poll", pollWord(err), statusOf(err), time.Since(begin))
	return state, err
}

func pollWord(err error) string {
	if err != nil {
		return "failed"
	}
	return "answered"
}

func statusOf(err error) int {
	var up *upstream.Error
	if errors.As(err, &up) {
		return up.HTTPStatus
	}
	return 0
}

// afterPoll commits what the upstream said, if it is worth an event. The poll is counted the
// first time.
func (j *videoJob) afterPoll(ctx context.Context, s upstream.VideoState, first bool) Outcome {
	now := time.Now()
	polled := func(o telemetry.PollOutcome) {
		if first {
			j.polled(o)
		}
	}
	switch s.Progression {
	case upstream.Completed:
		polled(telemetry.PollChanged)
		return j.complete(ctx, s)
	case upstream.Failed:
		e, err := task.FailedUpstream(j.video(), now, task.Failure{Unknown: s.Unknown, Status: fault.Clip(s.Status, 128), Usage: usage(s), Err: failure(s)})
		polled(telemetry.PollChanged)
		return j.end(ctx, e, err)
	case upstream.Running, upstream.Queued, upstream.InProgress:
	}
	e, worth, err := task.Observed(j.video(), now, task.Observation{
		Unknown: s.Unknown, Started: s.Progression != upstream.Queued, Status: fault.Clip(s.Status, 128), Progress: s.Progress,
		Size: fault.Clip(s.Size, maxDimension), Seconds: fault.Clip(s.Seconds, maxDimension),
	})
	release := func() {}
	if worth && err == nil && e.Job.GetStatus() == e.Previous { // it is about progress only
		release, worth = j.Log.RoomForProgress(ctx, e)
	}
	if !worth && err == nil {
		polled(telemetry.PollUnchanged)
		return Hold(j.pollAt)
	}
	defer release()
	polled(telemetry.PollChanged)
	if out, ok := j.commitNext(ctx, e, err); !ok {
		return out
	}
	return Hold(j.pollAt)
}
