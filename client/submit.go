package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// attemptWait is how long one sending of a request waits for its answer. genbus gives
// up on a request after 30 s, but an answer that was lost never comes.
const attemptWait = 10 * time.Second

// Waits between two sendings of a request.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// SubmitVideo asks for a video by request-reply, and returns the task once it is
// accepted: stored, so that it will come to its end whoever crashes. A RequestId that
// was used before gives the task that it made then, as it is now.
//
// A request without a RequestId gets a random one, so that it can be sent again when
// its answer is lost: it makes one job, however often it arrives. It is sent again until
// ctx ends or Options.Wait has passed, also while genbus is away. One that is larger
// than a message of NATS goes to the tenant's object store first; that needs rights
// there.
//
// Errors are *Error: the refusals of docs/errors.md; ErrBrokerUnavailable when genbus was
// not there, so that nothing was accepted; ErrAcceptanceUnknown when it is not known, with
// the JobID that the task has if there is one.
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

// encode makes the message. A random id is a header: the caller's own message stays as it
// is. Where the request is larger than a message, each sending has an upload of its own:
// genbus removes the one before as soon as it has dealt with it.
func (c *Client) encode(ctx context.Context, r request, subj string) (*nats.Msg, error) {
	m := nats.NewMsg(subj)
	if r.random {
		m.Header[subject.HeaderRequestID] = []string{r.id}
	}
	otel.GetTextMapPropagator().Inject(ctx, propagation.HeaderCarrier(m.Header))
	lower(m.Header)
	var err error
	if m.Data, err = proto.Marshal(r.message); err != nil {
		return nil, &Error{Code: ErrInvalidRequest, Message: "the request cannot be encoded: " + err.Error(), Err: err}
	}
	if !c.fits(m) {
		err = c.store(ctx, r.kind, m)
	}
	return m, err
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
	err := c.repeat(ctx, r, func() error {
		m, err := c.encode(ctx, r, c.names.Call(subject.Kind(r.kind), c.tenant))
		if err != nil {
			return err
		}
		attempt, cancel := context.WithTimeout(ctx, attemptWait)
		defer cancel()
		if reply, err = c.nc.RequestMsgWithContext(attempt, m); err != nil {
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
		return &Error{Code: ErrAcceptanceUnknown, Message: "the answer cannot be read: " + err.Error(), JobID: c.JobID(r.kind, r.id), Err: err}
	}
	return nil
}

// repeat sends until it is known what became of the request, or ctx ends. absent tells
// that it never reached anybody.
func (c *Client) repeat(ctx context.Context, r request, send func() error) error {
	absent := true
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		err := send()
		var refused *Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && !again(refused):
			return refused
		case final(err):
			return c.unknown(r, err, absent)
		}
		absent = absent && (refused != nil || errors.Is(err, nats.ErrNoResponders))
		if stopped := pause(ctx, wait); stopped != nil {
			return c.unknown(r, fmt.Errorf("%w: %w", stopped, err), absent)
		}
	}
}

// final reports whether a connection cannot send the message, now or later.
func final(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject)
}

// unknown is the error of a request that was not answered.
func (c *Client) unknown(r request, err error, absent bool) error {
	id := c.JobID(r.kind, r.id)
	if absent {
		return &Error{
			Code: ErrBrokerUnavailable, Retry: true, Err: err,
			Message: fmt.Sprintf("genbus does not answer, and nothing was accepted (%v%s)", err, lost(c.nc)),
		}
	}
	return &Error{
		Code: ErrAcceptanceUnknown, JobID: id, Err: err,
		Message: fmt.Sprintf("no answer came, so the request may have been accepted, as job %s with the request id %s: follow the job, or send the request again with this id (%v%s)", id, r.id, err, lost(c.nc)),
	}
}
