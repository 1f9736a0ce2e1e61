package task

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func newChat(item *genbusv1.WorkItem, x *genbusv1.Execution) *genbusv1.Chat {
	return &genbusv1.Chat{
		Id: item.GetId(), Tenant: item.GetTenant(), Model: item.GetModel(),
		Status: Status(x.GetPhase()), Version: 1,
		CreatedAt: item.GetAcceptedAt(), UpdatedAt: item.GetAcceptedAt(),
		Labels: item.GetLabels(), RequestId: item.GetRequestId(), RetryOf: item.GetRetryOf(),
		ExpiresAt: item.GetExpiresAt(), Execution: x,
	}
}

// Inline returns the first event of a chat that runs on its caller's connection. Such a chat never
// queues, so it has no queue limit, and no other replica takes it over.
func Inline(item *genbusv1.WorkItem, a Attempt) Event {
	at := item.GetAcceptedAt()
	c := newChat(item, &genbusv1.Execution{
		Phase: inProgress, Route: item.GetRoute(), Fingerprint: item.GetFingerprint(), Stream: item.GetStream(),
		Upstream: a.Upstream, UpstreamKey: a.Key, Attempt: 1, FirstSubmitAt: at, Deadline: timestamppb.New(a.Deadline),
	})
	c.Inline, c.Attempt, c.ExpiresAt = true, 1, nil
	c.Execution.Traceparent, c.Execution.Tracestate = trace(item)
	return Event{Job: c, Time: at.AsTime()}
}

// Attempt holds the values that are fixed before a chat's upstream is called.
type Attempt struct {
	// Upstream and Key name the destination of the call.
	Upstream, Key string
	// Deadline is when the chat fails if it has not ended. Only the first attempt sets it.
	Deadline time.Time
}

// Started returns the event that is committed before each call to the upstream. It numbers the
// attempt and makes the chunks of earlier attempts void.
func Started(c *genbusv1.Chat, now time.Time, a Attempt) (Event, error) {
	return next(c, inProgress, now, func(c *genbusv1.Chat, x *genbusv1.Execution) {
		c.Attempt++
		x.Attempt = c.GetAttempt()
		x.Upstream, x.UpstreamKey = a.Upstream, a.Key
		if x.GetFirstSubmitAt() == nil {
			x.FirstSubmitAt = timestamppb.New(now)
			x.Deadline = timestamppb.New(a.Deadline)
		}
	})
}

// Reply is the result of a completed chat. Either JSON or Ref is set.
type Reply struct {
	// Upstream and Key name the upstream that answered. That may differ from the attempt's
	// upstream, which is the route's first one.
	Upstream, Key string
	JSON          []byte
	Ref           *genbusv1.BlobRef
	Usage         *genbusv1.Usage
	Chunks        uint64
}

// Replied ends a chat with its complete reply.
func Replied(c *genbusv1.Chat, now time.Time, r Reply) (Event, error) {
	return next(c, completed, now, func(c *genbusv1.Chat, x *genbusv1.Execution) {
		x.Upstream, x.UpstreamKey = r.Upstream, r.Key
		c.ReplyJson, c.ReplyRef, c.Usage, c.ChunkCount = r.JSON, r.Ref, bounded(r.Usage), r.Chunks
	})
}

// FailedChat ends a chat without a complete reply. chunks is the number of blocks that its last
// attempt published.
func FailedChat(c *genbusv1.Chat, now time.Time, chunks uint64, err *genbusv1.TaskError) (Event, error) {
	return next(c, failed, now, func(c *genbusv1.Chat, _ *genbusv1.Execution) {
		c.Error, c.ChunkCount = err, chunks
	})
}
