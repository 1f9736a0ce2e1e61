package publisher

import (
	"context"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// usageType is the CloudEvents type of a usage event.
const usageType = "genbus.job.usage.v1"

// Usage returns the message that reports an ended job's consumption. It returns nil for a job that
// was never sent to an upstream. The message has the same ce-id as the terminal event.
func (c Encoder) Usage(ctx context.Context, e task.Event) (*nats.Msg, error) {
	x := e.Job.GetExecution()
	if x.GetFirstSubmitAt() == nil {
		return nil, nil //nolint:nilnil // no usage is not an error
	}
	kind := subject.Kind(task.Kind(e.Job))
	m, h := newMessage(c.Names.Usage(kind, e.Job.GetTenant(), e.Job.GetId()), otherHeaders)
	attributes(h, e.ID(), kind, e.Job.GetTenant(), e.Job.GetId(), e.Time)
	h.set(subject.HeaderCEType, usageType)
	h.trace(ctx)
	u := &genbusv1.UsageEvent{
		Id: e.Job.GetId(), Kind: string(kind), Tenant: e.Job.GetTenant(), Model: e.Job.GetModel(), Route: x.GetRoute(), Upstream: x.GetUpstream(),
		Status: e.Job.GetStatus(), Code: e.Job.GetError().GetCode(), Time: timestamppb.New(e.Time), Usage: e.Job.GetUsage(),
		Attempts: x.GetAttempt(), Labels: e.Job.GetLabels(),
	}
	if v, ok := e.Job.(*genbusv1.VideoTask); ok {
		u.Videos, u.VideoSeconds = int32(len(v.GetVideos())), videoSeconds(v.GetVideos())
	}
	return m, c.payload(m, h, u)
}

// videoSeconds returns the total length of all videos, or nil if the length of any video is
// unknown.
func videoSeconds(videos []*genbusv1.Video) *float64 {
	sum := 0.0
	for _, v := range videos {
		if v.GetDurationSeconds() <= 0 {
			return nil
		}
		sum += v.GetDurationSeconds()
	}
	if len(videos) == 0 {
		return nil
	}
	return &sum
}
