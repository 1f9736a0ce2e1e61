package client

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// SubmitVideo asks for a video by request-reply, and returns the task once it is
// accepted: stored, so that it ends even after a crash. A RequestId that
// was used before returns the task that it created, in its present state.
//
// A request without a RequestId gets a random one, so that it can be sent again when
// its answer is lost: it makes one job, however often it arrives. It is sent again until
// ctx ends or Options.Wait has passed, also while genbus is away. One that is larger
// than a message of NATS goes to the tenant's object store first; that needs rights
// there.
//
// Errors are *Error: the refusals of docs/errors.md; ErrBrokerUnavailable when genbus was
// not there, so that nothing was accepted; ErrAcceptanceUnknown when it is not known, with
// the JobID that the task has if there is one, and the RequestID to send it again with.
func (c *Client) SubmitVideo(ctx context.Context, r *genbusv1.VideoRequest) (*genbusv1.VideoTask, error) {
	answer := &genbusv1.CreateVideoTaskResponse{}
	err := c.call(ctx, request{kind: Video, message: r, id: r.GetRequestId()}, answer)
	return answer.GetTask(), err
}

// SubmitChat is SubmitVideo for a chat, which is queued. FollowChat gives its reply as it
// grows.
func (c *Client) SubmitChat(ctx context.Context, r *genbusv1.ChatRequest) (*genbusv1.Chat, error) {
	answer := &genbusv1.SubmitChatCompletionResponse{}
	err := c.call(ctx, request{kind: Chat, message: r, id: r.GetRequestId()}, answer)
	return answer.GetChat(), err
}

// request is what is sent.
type request struct {
	kind    Kind
	message proto.Message
	id      string // idempotency key
	random  bool   // it is none of the caller's
}

// prepare gives the request its id.
func (r *request) prepare() {
	if r.id == "" {
		r.id, r.random = rand.Text(), true
	}
}

// lower writes the names of headers as genbus does; propagation.HeaderCarrier has those
// of HTTP.
func lower(h nats.Header) {
	for key, name := range map[string]string{"Traceparent": subject.HeaderTraceParent, "Tracestate": subject.HeaderTraceState} {
		if v, ok := h[key]; ok {
			delete(h, key)
			h[name] = v
		}
	}
}

// call sends a request until it is answered.
func (c *Client) call(ctx context.Context, r request, answer proto.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("no answer within %s", c.wait))
	defer cancel()
	r.prepare()
	var reply *nats.Msg
	err := c.send(ctx, r, c.names.Call(subject.Kind(r.kind), c.tenant), func(ctx context.Context, m *nats.Msg) (err error) {
		if reply, err = c.nc.RequestMsgWithContext(ctx, m); err != nil {
			return err
		}
		if e := refusal(reply); e != nil {
			return e
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(reply.Data, answer); err != nil {
		return &Error{Code: ErrAcceptanceUnknown, Message: "the answer cannot be read: " + err.Error(), JobID: c.JobID(r.kind, r.id), RequestID: r.id, Err: err}
	}
	if notice := reply.Header.Get(subject.HeaderNotice); notice != "" && c.notice != nil {
		c.notice(reply.Header.Get(subject.HeaderJobID), notice)
	}
	return nil
}
