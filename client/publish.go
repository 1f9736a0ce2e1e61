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

// PublishVideo puts a request into the inbox, which takes it even while no genbus runs,
// and returns the id that its job will have. It is stored then, and not yet accepted: a
// request that turns out to be wrong becomes a failed job and a dead letter.
//
// What SubmitVideo says of RequestId, repetition and size holds here. Errors are
// *Error: ErrQueueFull when the inbox is full, ErrBrokerUnavailable and
// ErrAcceptanceUnknown.
func (c *Client) PublishVideo(ctx context.Context, r *genbusv1.VideoRequest) (id string, err error) {
	return c.publish(ctx, request{kind: Video, message: r, id: r.GetRequestId()})
}

// PublishChat is PublishVideo for a chat.
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

// Codes of JetStream.
const (
	codeStoreFailed     jetstream.ErrorCode = 10077 // a limit of the stream, mostly
	codeNoSpace         jetstream.ErrorCode = 10023 // "insufficient resources"
	codeMessageTooLarge jetstream.ErrorCode = 10054
)

// notStored gives a refusal of JetStream its meaning.
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
