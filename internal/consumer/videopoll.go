package consumer

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
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
	interval := j.Poll.Interval * time.Duration(min(j.failures+1, slowPoll))
	j.pollAt = time.Now().Add(jittered(interval, j.Poll.Jitter))
	return Hold(j.pollAt)
}

// poll asks the upstream once. Nothing that goes wrong here fails a task; only
// the deadline does, and that not before this process has asked: while the task
// had no holder, the upstream may have finished what is paid for.
func (j *videoJob) poll(ctx context.Context) Outcome {
	now := time.Now()
	if x := j.entry.Job.GetExecution(); x.GetUnconfirmed() == "" {
		j.item = nil // a submitted task needs its request's body no more
	}
	if now.Before(j.pollAt) { // woken for another reason
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
	if late(x, now) && !finished && j.asked {
		return j.fail(ctx, fault.New(fault.DeadlineExceeded,
			"job %s: upstream %s had not finished task %s by the deadline", j.name.ID, a.Upstream, j.video().GetUpstreamTaskId()))
	}
	state, err := j.askUpstream(ctx, client)
	j.asked = true
	switch {
	case errors.Is(err, ErrShutdown):
		return Nak()
	case finished && (err != nil || state.Progression != upstream.Completed):
		return j.afterLostResult(ctx, now, err)
	case err != nil:
		return j.afterFailedPoll(err)
	}
	j.failures = 0
	return j.afterPoll(ctx, state)
}

func late(x *genbusv1.Execution, now time.Time) bool {
	return x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime())
}

func (j *videoJob) afterFailedPoll(err error) Outcome {
	j.failures++
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
		return []any{telemetry.KeyHTTPStatus, e.HTTPStatus, telemetry.KeyCode, e.Code}
	}
}

// afterLostResult is a poll that no longer says what the upstream said before:
// that the task has completed. What is known of the result stands; a process that
// knows nothing of it asks until the deadline.
func (j *videoJob) afterLostResult(ctx context.Context, now time.Time, err error) Outcome {
	over := !now.Before(j.entry.Job.GetExecution().GetArchiveUntil().AsTime())
	switch {
	case over && j.result.known != nil:
		return j.complete(ctx, *j.result.known)
	case over && late(j.entry.Job.GetExecution(), now):
		return j.fail(ctx, fault.New(fault.DeadlineExceeded,
			"job %s: upstream %s had finished task %s, but says nothing of its result any more", j.name.ID, j.upstreamName(), j.video().GetUpstreamTaskId()))
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
	j.ups.of(j.upstreamName()).Request("poll", pollWord(err), statusOf(err), time.Since(begin))
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

// afterPoll commits what the upstream said, if it is worth an event.
func (j *videoJob) afterPoll(ctx context.Context, s upstream.VideoState) Outcome {
	now := time.Now()
	switch s.Progression {
	case upstream.Completed:
		j.polled(telemetry.PollChanged)
		return j.complete(ctx, s)
	case upstream.Failed:
		e, err := task.FailedUpstream(j.video(), now, task.Failure{Unknown: s.Unknown, Status: fault.Clip(s.Status, 128), Usage: usage(s), Err: failure(s)})
		j.polled(telemetry.PollChanged)
		return j.end(ctx, e, err)
	case upstream.Running, upstream.Queued, upstream.InProgress:
	}
	e, worth, err := task.Observed(j.video(), now, task.Observation{
		Unknown: s.Unknown, Started: s.Progression != upstream.Queued, Status: fault.Clip(s.Status, 128), Progress: s.Progress,
	})
	if err == nil && (!worth || j.crowded(ctx, e)) {
		j.polled(telemetry.PollUnchanged)
		return j.holdForPoll()
	}
	j.polled(telemetry.PollChanged)
	if out, ok := j.commitNext(ctx, e, err); !ok {
		return out
	}
	return j.holdForPoll()
}

// crowded drops an event that is about progress only while the log is nearly
// full, so that terminal events have room.
func (j *videoJob) crowded(ctx context.Context, e task.Event) bool {
	return e.Job.GetStatus() == e.Previous && j.Log.Usage(ctx) > tasklog.ProgressBelow
}
