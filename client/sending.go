package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/subject"
)

// attemptWait bounds the wait for the answer to one attempt. genbus answers within 30 s, but a lost
// answer never comes.
const attemptWait = 10 * time.Second

// Delays between two attempts.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 2 * time.Second
)

// errNotSent reports an attempt that sent nothing: its upload failed, its time had run out, or the
// connection was closed.
var errNotSent = errors.New("the request was not sent")

// sending is a request being sent.
type sending struct {
	c       *Client
	r       request
	subject string
	m       *nats.Msg // nil: not encoded yet
	upload  string    // object that m names, or empty
	absent  bool      // no attempt can have been accepted
}

// send sends a request until its outcome is known or ctx ends.
func (c *Client) send(ctx context.Context, r request, subj string, deliver func(context.Context, *nats.Msg) error) (err error) {
	s := &sending{c: c, r: r, subject: subj, absent: true}
	defer func() {
		if err != nil && s.absent {
			c.discard(ctx, s.upload)
		}
	}()
	var before error // error of the last attempt that was sent
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		err := s.once(ctx, deliver)
		if err == nil {
			return nil
		}
		if before != nil && errors.Is(err, errNotSent) {
			err = fmt.Errorf("%w, and before: %w", err, before)
		} else {
			before = err
		}
		if end := s.judge(err); end != nil {
			return end
		}
		if stopped := pause(ctx, wait); stopped != nil {
			return s.unanswered(fmt.Errorf("%w: %w", stopped, err))
		}
	}
}

func (s *sending) once(ctx context.Context, deliver func(context.Context, *nats.Msg) error) error {
	if s.m == nil {
		if err := s.encode(ctx); err != nil {
			return err
		}
	}
	// nats.go returns the same errors after sending a message, so check before.
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errNotSent, context.Cause(ctx))
	}
	if s.c.nc.IsClosed() {
		return fmt.Errorf("%w: %w", errNotSent, nats.ErrConnectionClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	return deliver(ctx, s.m)
}

// encode builds the message. A random ID goes into a header, so that the caller's message stays
// unchanged.
func (s *sending) encode(ctx context.Context) error {
	m := nats.NewMsg(s.subject)
	s.c.header(ctx, m.Header)
	if s.r.random {
		m.Header[subject.HeaderRequestID] = []string{s.r.id}
	}
	var err error
	if m.Data, err = proto.Marshal(s.r.message); err != nil {
		return &Error{Code: ErrInvalidRequest, Message: "encode the request: " + err.Error(), Err: err}
	}
	if !s.c.fits(m) {
		s.upload, err = s.c.store(ctx, s.r.kind, m)
		if err != nil { // part of the object may be stored
			s.c.discard(ctx, s.upload)
			s.upload = ""
			return err
		}
	}
	s.m = m
	return nil
}

// judge returns the final error of a failed attempt, or nil to retry.
func (s *sending) judge(err error) error {
	var refused *Error
	switch {
	case final(err):
		if errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, errNotSent) {
			s.absent = false // it closed while waiting for the answer
		}
		return s.unanswered(err)
	case errors.Is(err, errNotSent), errors.Is(err, nats.ErrNoResponders):
		return nil
	case !errors.As(err, &refused), refused.Code == ErrAcceptanceUnknown:
		s.absent = false
		s.spend()
		return nil
	case refused.Code == ErrInputLost && s.upload != "":
		s.spend()
		return nil
	case again(refused), refused.Retry && !s.absent:
		// genbus checks the rate limit before duplicates, so a refusal does not rule out that an
		// earlier attempt was accepted.
		return nil
	default:
		return refused
	}
}

// spend makes the next attempt upload again: genbus removes an upload once it has processed the
// message that names it.
func (s *sending) spend() {
	if s.upload != "" {
		s.m, s.upload = nil, ""
	}
}

// final reports whether this connection can never send the message.
func final(err error) bool {
	return errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject)
}

// unanswered returns the error of a request without a final answer: ErrBrokerUnavailable if no
// attempt can have been accepted, otherwise ErrAcceptanceUnknown.
func (s *sending) unanswered(err error) error {
	if s.absent {
		return &Error{
			Code: ErrBrokerUnavailable, Retry: true, Err: err,
			Message: fmt.Sprintf("genbus does not answer; nothing was accepted (%v%s)", err, lost(s.c.nc)),
		}
	}
	id := s.c.JobID(s.r.kind, s.r.id)
	return &Error{
		Code: ErrAcceptanceUnknown, JobID: id, RequestID: s.r.id, Err: err,
		Message: fmt.Sprintf("no answer; the request may have been accepted as job %s with request ID %s: follow the job, or send the request again with this ID (%v%s)", id, s.r.id, err, lost(s.c.nc)),
	}
}
