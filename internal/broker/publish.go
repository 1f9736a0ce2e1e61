package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The answers to a publish that are no success. Everything else that Publish
// returns means that there was no answer: the message may be stored or not.
var (
	// ErrWrongSequence: the expected last sequence was not the last (10071).
	ErrWrongSequence = errors.New("the subject's last sequence is another one")
	// ErrInFlight: another write on the subject is under way (10164, 10158).
	ErrInFlight = errors.New("another write on the subject is in flight")
	// ErrFull: the stream, or the subject, is full (10077).
	ErrFull = errors.New("the stream is full")
	// ErrTooLarge: the message exceeds a size limit; it was not stored.
	ErrTooLarge = errors.New("the message is too large")
	// ErrRefused: the server refused for another reason; it was not stored.
	ErrRefused = errors.New("the server refused the message")
	// ErrNoAnswer: it is not known whether the message is stored.
	ErrNoAnswer = errors.New("no answer from JetStream")
	// ErrUnavailable: the message certainly did not reach a stream.
	ErrUnavailable = errors.New("JetStream is unavailable")

	errNotConnected = errors.New("not connected to NATS")
)

const (
	codeWrongSequence         jetstream.ErrorCode = 10071
	codeWrongSequenceConstant jetstream.ErrorCode = 10164
	codeInFlight              jetstream.ErrorCode = 10158
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeTooLarge              jetstream.ErrorCode = 10054
)

// PublishTimeout is how long one publish waits for its answer.
const PublishTimeout = 5 * time.Second

// A publish that no stream listened to is sent again for a second. On three nodes that is
// so while a stream elects its leader, and just after it was created: the server that we are
// connected to may learn of the stream later than of the answer to the request that created it.
const (
	leaderlessTries = 20
	leaderlessWait  = 50 * time.Millisecond
)

// Ack is the server's confirmation.
type Ack struct {
	Seq uint64
	// Duplicate is true when the server dropped the message because it knew its
	// Nats-Msg-Id. It is no proof that the stored message is ours.
	Duplicate bool
}

// Publish stores m in the stream that listens to its subject, and waits for the
// answer. A lost answer is not retried here: the caller decides, with the same
// message. That no stream listened is retried for a second: nothing was stored.
func (b *Broker) Publish(ctx context.Context, m *nats.Msg) (Ack, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PublishTimeout, fmt.Errorf("publish to %s: %w within %s", m.Subject, ErrNoAnswer, PublishTimeout))
	defer cancel()
	ack, err := b.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(leaderlessTries), jetstream.WithRetryWait(leaderlessWait))
	if err != nil {
		return Ack{}, fmt.Errorf("publish to %s: %w", m.Subject, Classify(err))
	}
	return Ack{Seq: ack.Sequence, Duplicate: ack.Duplicate}, nil
}

// PublishExpecting is Publish with a compare-and-set: m is stored only if the
// last sequence on its (literal) subject is last; 0 means that there is none.
func (b *Broker) PublishExpecting(ctx context.Context, m *nats.Msg, last uint64) (Ack, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return b.Publish(ctx, m)
}

// Classify gives an error of any publish, synchronous or not, one of the meanings
// above. No responders means that no stream listened; a closed or disconnected
// client that refused to send stored nothing either.
func Classify(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return classifyAPI(api)
	}
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded):
		return errors.Join(ErrUnavailable, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return errors.Join(ErrTooLarge, err)
	default:
		return errors.Join(ErrNoAnswer, err)
	}
}

func classifyAPI(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case codeWrongSequence:
		return errors.Join(ErrWrongSequence, api)
	case codeWrongSequenceConstant, codeInFlight:
		return errors.Join(ErrInFlight, api)
	case codeStoreFailed:
		return errors.Join(ErrFull, api)
	case codeTooLarge:
		return errors.Join(ErrTooLarge, api)
	}
	// 5xx without a listed code (no quorum, shutting down, overrun): whether the
	// proposal went through is not said.
	if api.Code >= 500 {
		return errors.Join(ErrNoAnswer, api)
	}
	return errors.Join(ErrRefused, api)
}
