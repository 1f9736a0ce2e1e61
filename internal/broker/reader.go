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

// ErrNoMessage says that a read found nothing.
var ErrNoMessage = streamread.ErrNoMessage

// ReadTimeout is how long one read waits for its answer.
const ReadTimeout = 5 * time.Second

// Stored is a message as a stream holds it.
type Stored = streamread.Message

// reader reads the messages of streams.
type reader struct {
	link         *link
	settled      func(stream string, h nats.Header) bool // as Settled of the writer
	unreplicated unreplicated
}

// Last reads the last message on a subject (or pattern) from the stream's
// leader, or from the only server that has the stream.
func (r *reader) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return r.get(ctx, stream, streamread.Last(subject))
}

// Probe is Last for a subject that mostly has no message. That there is none only the leader
// says, so it is asked at once.
func (r *reader) Probe(ctx context.Context, stream, subject string) (Stored, error) {
	return r.ofLeader(ctx, stream, streamread.Last(subject))
}

// Next reads the first message on a subject with sequence seq or above, as Last does.
func (r *reader) Next(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	return r.get(ctx, stream, streamread.Next(subject, seq))
}

// At reads the message with a sequence, as Last does.
func (r *reader) At(ctx context.Context, stream string, seq uint64) (Stored, error) {
	return r.get(ctx, stream, streamread.At(seq))
}

// errUnsettled says that a message was read which may not be on disk.
var errUnsettled = errors.New("the message is part of a batch whose sync was not confirmed")

// get reads a message where it costs least and is as it is at the leader.
func (r *reader) get(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	if r.unreplicated.has(stream) {
		if m, decided, err := r.getUnreplicated(ctx, stream, req); decided {
			return r.checked(stream, m, err)
		}
	}
	return r.ofLeader(ctx, stream, req)
}

// checked refuses what was read of a batch that may not be on disk: it would prove a write
// that a cut of the power takes back.
func (r *reader) checked(stream string, m Stored, err error) (Stored, error) {
	if err == nil && !r.settled(stream, m.Header) {
		return Stored{}, fmt.Errorf("message %d of %s: %w", m.Seq, stream, errors.Join(ErrUnavailable, errUnsettled))
	}
	return m, err
}

// ofLeader asks again, within ReadTimeout, while the stream elects its leader.
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

// ask sends a request that is harmless to repeat, and repeats it where its connection was lost
// under way. Without a connection it fails at once.
func (r *reader) ask(ctx context.Context, subject string, body []byte) (*nats.Msg, error) {
	for {
		down, _ := r.link.state.now()
		if down.Err() != nil {
			return r.link.nc.RequestWithContext(ctx, subject, body) // which the client refuses to send
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

// askOver asks over one connection, and gives up when it is lost.
func (r *reader) askOver(ctx, down context.Context, subject string, body []byte) (*nats.Msg, error) {
	try, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(down, cancel)()
	return r.link.nc.RequestWithContext(try, subject, body)
}

// IsInbox reports whether a subject is the inbox of a replica's question. An answer goes to no
// other one: a client that may ask could have it go to any subject that the service may publish
// to.
func IsInbox(reply string) bool { return strings.HasPrefix(reply, nats.InboxPrefix) }
