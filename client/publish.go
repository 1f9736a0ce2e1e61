package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// PublishVideo stores a request in the inbox, the stream GENBUS_REQUESTS, and returns the ID of its
// future job. This works even while genbus is down. The request is stored but not yet accepted: an
// invalid one becomes a failed job and a dead letter.
//
// RequestId, retries and large requests work as in SubmitVideo. Errors are *Error:
// ErrInvalidRequest, ErrBodyTooLarge, ErrQueueFull if the inbox is full, ErrBrokerUnavailable and
// ErrAcceptanceUnknown.
func (c *Client) PublishVideo(ctx context.Context, r *genbusv1.VideoRequest) (id string, err error) {
	return c.publish(ctx, request{kind: Video, message: r, id: r.GetRequestId()})
}

// PublishChat stores a chat request in the inbox, like PublishVideo.
func (c *Client) PublishChat(ctx context.Context, r *genbusv1.ChatRequest) (id string, err error) {
	return c.publish(ctx, request{kind: Chat, message: r, id: r.GetRequestId()})
}

func (c *Client) publish(ctx context.Context, r request) (id string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("not stored within %s", c.wait))
	defer cancel()
	r.prepare()
	err = c.send(ctx, r, c.names.Request(subject.Kind(r.kind), c.tenant), func(ctx context.Context, m *nats.Msg) error {
		_, err := c.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		return notStored(err)
	})
	if err != nil {
		return "", err
	}
	return c.JobID(r.kind, r.id), nil
}

// Error codes of JetStream.
const (
	codeStoreFailed     jetstream.ErrorCode = 10077 // usually a limit of the stream
	codeNoSpace         jetstream.ErrorCode = 10023 // "insufficient resources"
	codeMessageTooLarge jetstream.ErrorCode = 10054
)

// notStored translates an error of JetStream: a full inbox to ErrQueueFull, a message that is too
// large to ErrBodyTooLarge.
func notStored(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return nats.ErrNoResponders
	case !errors.As(err, &api):
		return err
	}
	switch api.ErrorCode {
	case codeStoreFailed, codeNoSpace:
		return &Error{Code: ErrQueueFull, Retry: true, Message: "the inbox is full, so the request was not stored: " + api.Description, Err: err}
	case codeMessageTooLarge:
		return &Error{Code: ErrBodyTooLarge, Message: "the inbox does not accept a message of this size: " + api.Description, Err: err}
	default:
		return err
	}
}
