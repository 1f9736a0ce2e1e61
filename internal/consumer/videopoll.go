package consumer

import (
	"context"
	"errors"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
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
// the deadline does.
func (j *videoJob) poll(ctx context.Context) Outcome {
	now := time.Now()
	j.item = nil              // a submitted task needs its request's body no more
	if now.Before(j.pollAt) { // woken for another reason
		return Hold(j.pollAt)
	}
	if deadline := j.entry.Job.GetExecution().GetDeadline(); deadline != nil && now.After(deadline.AsTime()) {
		return j.fail(ctx, fault.New(fault.DeadlineExceeded,
			"job %s: upstream %s had not finished task %s by the deadline", j.name.ID, j.Upstream, j.video().GetUpstreamTaskId()))
	}
	state, err := j.askUpstream(ctx)
	if err != nil && errors.Is(err, ErrShutdown) {
		return Nak()
	}
	if err != nil {
		j.failures++
		j.metrics.PollEnded(telemetry.PollFailed)
		j.Logger.Debug("poll failed", j.attrs("error", err)...)
		return j.holdForPoll()
	}
	j.failures = 0
	return j.afterPoll(ctx, state)
}

func (j *videoJob) askUpstream(ctx context.Context) (upstream.VideoState, error) {
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
	ctx, span := j.span(ctx, "genbus.video.poll")
	state, err := j.Client.Poll(ctx, j.video().GetUpstreamTaskId())
	endSpan(span, err)
	j.up.Request("poll", pollWord(err), statusOf(err), time.Since(begin))
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
		j.metrics.PollEnded(telemetry.PollChanged)
		return j.complete(ctx, s)
	case upstream.Failed:
		e, err := task.FailedUpstream(j.video(), now, fault.Clip(s.Status, 128), usage(s), failure(s))
		j.metrics.PollEnded(telemetry.PollChanged)
		return j.end(ctx, e, err)
	case upstream.Running, upstream.Queued, upstream.InProgress:
	}
	e, worth, err := task.Observed(j.video(), now, task.Observation{
		Started: s.Progression != upstream.Queued, Status: fault.Clip(s.Status, 128), Progress: s.Progress,
	})
	if err == nil && (!worth || j.crowded(ctx, e)) {
		j.metrics.PollEnded(telemetry.PollUnchanged)
		return j.holdForPoll()
	}
	j.metrics.PollEnded(telemetry.PollChanged)
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

// maxURL is the longest result URL that an event carries, and maxResult the
// longest result in all. Some upstreams answer with data URLs that hold the whole
// video.
const (
	maxURL    = 64 << 10
	maxResult = 256 << 10
)

// complete ends the task with its result. What is too long for an event goes to
// the object store, and the task's archive names it.
func (j *videoJob) complete(ctx context.Context, s upstream.VideoState) Outcome {
	r := task.Result{Metadata: s.Metadata, Usage: usage(s), UpstreamStatus: fault.Clip(s.Status, 128)}
	store := func(name string, data []byte) bool {
		ref, err := j.Bodies.Put(ctx, j.name.Tenant, j.name.ID+"-"+name, data)
		if err != nil {
			j.Logger.Warn("a long result could not be stored", j.attrs("error", err)...)
			return false
		}
		r.Archived = append(r.Archived, publisher.BlobRef(ref))
		return true
	}
	if len(s.Metadata) > maxURL {
		if !store("metadata", s.Metadata) {
			return j.holdForPoll()
		}
		r.Metadata = nil
	}
	total := 0
	for i, v := range s.Videos {
		if total += len(v.URL); len(v.URL) > maxURL || total > maxResult {
			if !store("result-"+strconv.Itoa(i), []byte(v.URL)) {
				return j.holdForPoll()
			}
			total -= len(v.URL)
			v.URL = ""
		}
		r.Videos = append(r.Videos, video(v))
	}
	e, err := task.Completed(j.video(), time.Now(), r)
	return j.end(ctx, e, err)
}

func video(v upstream.VideoFile) *genbusv1.Video {
	out := &genbusv1.Video{
		Url: fault.Clip(v.URL, maxURL), Format: fault.Clip(v.Format, 32), DurationSeconds: v.Duration,
		Width: int32(v.Width), Height: int32(v.Height),
	}
	if !v.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(v.ExpiresAt)
	}
	return out
}

func usage(s upstream.VideoState) *genbusv1.Usage {
	if len(s.Usage) == 0 {
		return nil
	}
	return body.ParseUsage(s.Usage)
}

func failure(s upstream.VideoState) *genbusv1.TaskError {
	if s.Err == nil {
		return fault.New(fault.UpstreamFailed, "the upstream reports that the task failed, and gives no reason").TaskError()
	}
	f := routes.Fault(s.Err)
	f.Code, f.Message = fault.UpstreamFailed, s.Err.Message
	out := f.TaskError()
	out.Retryable = !s.Err.Final
	return out
}
