package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/streamread"
)

// ErrNoMessage is returned if no message matches a read.
var ErrNoMessage = streamread.ErrNoMessage

// ReadTimeout bounds the wait for the answer to one read.
const ReadTimeout = 5 * time.Second

// Stored is a message stored in a stream.
type Stored = streamread.Message

type reader struct {
	link         *link
	synced       func(stream string, h nats.Header) bool // writer.Synced
	unreplicated unreplicated
}

// Last returns the last message on a subject or pattern. It asks the stream's leader, or uses a
// direct get if the stream is unreplicated.
func (r *reader) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return r.get(ctx, stream, streamread.Last(subject))
}

// Probe is like Last but for a subject that usually has no message. Only the leader can confirm
// that there is none, so Probe skips the direct get.
func (r *reader) Probe(ctx context.Context, stream, subject string) (Stored, error) {
	return r.ofLeader(ctx, stream, streamread.Last(subject))
}

// Next returns the first message on a subject whose sequence is at least seq. It reads like Last.
func (r *reader) Next(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	return r.get(ctx, stream, streamread.Next(subject, seq))
}

// At returns the message with the given sequence. It reads like Last.
func (r *reader) At(ctx context.Context, stream string, seq uint64) (Stored, error) {
	return r.get(ctx, stream, streamread.At(seq))
}

// errUnsynced means that the message that was read may not be on disk.
var errUnsynced = errors.New("the message is part of a batch whose sync was not confirmed")

// get uses the cheapest read that is as current as a read from the leader.
func (r *reader) get(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	if r.unreplicated.has(stream) {
		if m, decided, err := r.getUnreplicated(ctx, stream, req); decided {
			return r.checked(stream, m, err)
		}
	}
	return r.ofLeader(ctx, stream, req)
}

// checked rejects a message of a batch that may not be on disk. Otherwise, a caller could rely on a
// write that a power failure can still revert.
func (r *reader) checked(stream string, m Stored, err error) (Stored, error) {
	if err == nil && !r.synced(stream, m.Header) {
		return Stored{}, fmt.Errorf("message %d of %s: %w", m.Seq, stream, errors.Join(ErrUnavailable, errUnsynced))
	}
	return m, err
}

// ofLeader reads from the leader. While the stream elects one, it retries for up to ReadTimeout.
func (r *reader) ofLeader(ctx context.Context, stream string, req streamread.Request) (m Stored, err error) {
	ctx, cancel := readTimeout(ctx, stream)
	defer cancel()
	for {
		m, err = r.askLeader(ctx, stream, req)
		if !isElecting(err) || Wait(ctx, leaderlessWait) != nil {
			return r.checked(stream, m, err)
		}
	}
}

func (r *reader) askLeader(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	reply, err := r.read(ctx, stream, streamread.Subject(stream), req)
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

func (r *reader) read(ctx context.Context, stream, api string, req streamread.Request) (*nats.Msg, error) {
	ctx, cancel := readTimeout(ctx, stream)
	defer cancel()
	body, err := req.Encode()
	if err != nil {
		return nil, err
	}
	reply, err := r.ask(ctx, api, body)
	if err != nil {
		return nil, fmt.Errorf("read %s from %s: %w", req, stream, errors.Join(ErrUnavailable, err))
	}
	return reply, nil
}

// ask sends a request that is safe to repeat. It repeats the request if the connection is lost
// before the answer arrives. If there is no connection, it fails immediately.
func (r *reader) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		down, _ := r.link.state.now()
		if down.Err() != nil {
			return r.link.nc.RequestWithContext(ctx, subject, body) // the client refuses to send it
		}
		m, err := r.askOver(ctx, down, subject, body)
		if err == nil || down.Err() == nil || ctx.Err() != nil || errors.Is(err, nats.ErrReconnectBufExceeded) {
			return m, err
		}
		_, up := r.link.state.now()
		select {
		case <-up:
		case <-r.link.closed:
			return nil, nats.ErrConnectionClosed
		case <-ctx.Done():
			return nil, errors.Join(nats.ErrDisconnected, context.Cause(ctx))
		}
	}
}

// askOver sends a request over the current connection and fails if that connection is lost.
func (r *reader) askOver(ctx, down context.Context, subject string, body []byte) (*nats.Msg, error) {
	try, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(down, cancel)()
	return r.link.nc.RequestWithContext(try, subject, body)
}

// IsInbox reports whether reply is an inbox. Replicas send answers only to inboxes. Otherwise, a
// requester could direct an answer to any subject that the service may publish to.
func IsInbox(reply string) bool { return strings.HasPrefix(reply, nats.InboxPrefix) }
