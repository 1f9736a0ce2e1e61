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

// SubmitVideo requests a video by request-reply and returns the task once it is accepted: genbus
// has stored it and will finish it even after a crash. A RequestId that was used before returns the
// existing task in its current state.
//
// A request without a RequestId gets a random one, so retries never create a second job.
// SubmitVideo retries until ctx ends or Options.Wait has passed, even while genbus is down. A
// request larger than a NATS message is uploaded to the tenant's object store first, which needs
// permissions there.
//
// Errors are *Error: a refusal (docs/errors.md); ErrBrokerUnavailable if genbus did not answer and
// nothing was accepted; ErrAcceptanceUnknown if the outcome is unknown, with the JobID that the
// task would have and the RequestID for a retry.
func (c *Client) SubmitVideo(ctx context.Context, r *genbusv1.VideoRequest) (*genbusv1.VideoTask, error) {
	answer := &genbusv1.CreateVideoTaskResponse{}
	err := c.call(ctx, request{kind: Video, message: r, id: r.GetRequestId()}, answer)
	return answer.GetTask(), err
}

// SubmitChat submits a queued chat, like SubmitVideo. FollowChat yields its reply as it grows.
func (c *Client) SubmitChat(ctx context.Context, r *genbusv1.ChatRequest) (*genbusv1.Chat, error) {
	answer := &genbusv1.SubmitChatCompletionResponse{}
	err := c.call(ctx, request{kind: Chat, message: r, id: r.GetRequestId()}, answer)
	return answer.GetChat(), err
}

// request is a request before it is encoded.
type request struct {
	kind    Kind
	message proto.Message
	id      string // idempotency key
	random  bool   // id was generated, not set by the caller
}

// prepare sets a random request ID if the caller did not set one.
func (r *request) prepare() {
	if r.id == "" {
		r.id, r.random = rand.Text(), true
	}
}

// call sends a request and decodes its reply into answer.
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
