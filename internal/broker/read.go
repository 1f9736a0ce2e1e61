package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/streamread"
)

// ErrNoMessage says that a read found nothing.
var ErrNoMessage = streamread.ErrNoMessage

// ReadTimeout is how long one read waits for its answer.
const ReadTimeout = 5 * time.Second

// Stored is a message as a stream holds it.
type Stored = streamread.Message

// Last reads the last message on a subject (or pattern) from the stream's
// leader, or from the only server that has the stream.
func (c *connection) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return c.get(ctx, stream, streamread.Last(subject))
}

// Probe is Last for a subject that mostly has no message. That there is none only the leader
// says, so it is asked at once.
func (c *connection) Probe(ctx context.Context, stream, subject string) (Stored, error) {
	return c.ofLeader(ctx, stream, streamread.Last(subject))
}

// Next reads the first message on a subject with sequence seq or above, as Last does.
func (c *connection) Next(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	return c.get(ctx, stream, streamread.Next(subject, seq))
}

// At reads the message with a sequence, as Last does.
func (c *connection) At(ctx context.Context, stream string, seq uint64) (Stored, error) {
	return c.get(ctx, stream, streamread.At(seq))
}

// errUnsettled says that a message was read which may not be on disk.
var errUnsettled = errors.New("it is part of a batch whose sync was not confirmed")

// get reads a message where it costs least and is as it is at the leader.
func (c *connection) get(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	if c.unreplicated.has(stream) {
		if m, decided, err := c.getUnreplicated(ctx, stream, req); decided {
			return c.settled(stream, m, err)
		}
	}
	return c.ofLeader(ctx, stream, req)
}

// settled refuses what was read of a batch that may not be on disk: it would prove a write
// that a cut of the power takes back.
func (c *connection) settled(stream string, m Stored, err error) (Stored, error) {
	if err == nil && !c.Settled(stream, m.Header) {
		return Stored{}, fmt.Errorf("message %d of %s: %w", m.Seq, stream, errors.Join(ErrUnavailable, errUnsettled))
	}
	return m, err
}

// ofLeader asks again, within ReadTimeout, while the stream elects its leader.
func (c *connection) ofLeader(ctx context.Context, stream string, req streamread.Request) (m Stored, err error) {
	ctx, cancel := readTimeout(ctx, stream)
	defer cancel()
	for {
		m, err = c.askLeader(ctx, stream, req)
		if !isElecting(err) || Wait(ctx, leaderlessWait) != nil {
			return c.settled(stream, m, err)
		}
	}
}

func (c *connection) askLeader(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	reply, err := c.read(ctx, stream, streamread.Subject(stream), req)
	if err != nil {
		return Stored{}, err
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

func readTimeout(ctx context.Context, stream string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("read from %s: no answer within %s", stream, ReadTimeout))
}

func (c *connection) read(ctx context.Context, stream, api string, req streamread.Request) (*nats.Msg, error) {
	ctx, cancel := readTimeout(ctx, stream)
	defer cancel()
	body, err := req.Encode()
	if err != nil {
		return nil, err
	}
	reply, err := c.ask(ctx, stream, api, body)
	if err != nil {
		return nil, fmt.Errorf("read %s from %s: %w", req, stream, errors.Join(ErrUnavailable, err))
	}
	return reply, nil
}
