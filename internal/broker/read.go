package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/streamread"
)

// ErrNoMessage says that a read found nothing.
var ErrNoMessage = streamread.ErrNoMessage

// ReadTimeout is how long one read waits for its answer.
const ReadTimeout = 5 * time.Second

// Stored is a message as a stream holds it.
type Stored = streamread.Message

// Last reads the last message on a subject (or pattern) from the stream's
// leader.
func (c *connection) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return c.get(ctx, stream, streamread.Last(subject))
}

// Next reads the first message on a subject with sequence seq or above, from the
// stream's leader.
func (c *connection) Next(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	return c.get(ctx, stream, streamread.Next(subject, seq))
}

// At reads the message with a sequence, from the stream's leader.
func (c *connection) At(ctx context.Context, stream string, seq uint64) (Stored, error) {
	return c.get(ctx, stream, streamread.At(seq))
}

func (c *connection) get(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("read from %s: no answer within %s", stream, ReadTimeout))
	defer cancel()
	body, err := req.Encode()
	if err != nil {
		return Stored{}, err
	}
	reply, err := c.ask(ctx, streamread.Subject(stream), body)
	if err != nil {
		return Stored{}, fmt.Errorf("read %s from %s: %w", req, stream, errors.Join(ErrUnavailable, err))
	}
	m, err := streamread.Decode(reply.Data)
	if errors.Is(err, streamread.ErrRefused) {
		err = errors.Join(ErrUnavailable, err)
	}
	if err != nil && !errors.Is(err, ErrNoMessage) {
		err = fmt.Errorf("read from %s: %w", stream, err)
	}
	return m, err
}
