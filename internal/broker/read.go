package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrNoMessage says that a read found nothing.
var ErrNoMessage = errors.New("no message")

// ReadTimeout is how long one read waits for its answer.
const ReadTimeout = 5 * time.Second

// Stored is a message as a stream holds it.
type Stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

type getRequest struct {
	Seq       uint64 `json:"seq,omitempty"`
	LastBy    string `json:"last_by_subj,omitempty"`
	NextBy    string `json:"next_by_subj,omitempty"`
	NoHeaders bool   `json:"no_hdr,omitempty"`
}

// String says what is asked for.
func (r getRequest) String() string {
	if r.LastBy == "" && r.NextBy == "" {
		return fmt.Sprintf("sequence %d", r.Seq)
	}
	return r.LastBy + r.NextBy
}

type getAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// Last reads the last message on a subject (or pattern) from the stream's
// leader. A direct get is answered by any replica and was stale in one of ten
// reads on three nodes, so it is never used for decisions.
func (b *Broker) Last(ctx context.Context, stream, subject string) (Stored, error) {
	return b.get(ctx, stream, getRequest{LastBy: subject})
}

// Next reads the first message on a subject with sequence seq or above, from the
// stream's leader.
func (b *Broker) Next(ctx context.Context, stream, subject string, seq uint64) (Stored, error) {
	return b.get(ctx, stream, getRequest{NextBy: subject, Seq: max(seq, 1)})
}

// At reads the message with a sequence, from the stream's leader.
func (b *Broker) At(ctx context.Context, stream string, seq uint64) (Stored, error) {
	return b.get(ctx, stream, getRequest{Seq: seq})
}

func (b *Broker) get(ctx context.Context, stream string, req getRequest) (Stored, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, ReadTimeout, fmt.Errorf("read from %s: no answer within %s", stream, ReadTimeout))
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return Stored{}, err
	}
	reply, err := b.ask(ctx, "$JS.API.STREAM.MSG.GET."+stream, body)
	if err != nil {
		return Stored{}, fmt.Errorf("read %s from %s: %w", req, stream, errors.Join(ErrUnavailable, err))
	}
	return decodeGet(stream, reply.Data)
}

func decodeGet(stream string, data []byte) (Stored, error) {
	var a getAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return Stored{}, fmt.Errorf("read from %s: unreadable answer: %w", stream, err)
	}
	switch {
	case a.Error != nil && a.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Stored{}, ErrNoMessage
	case a.Error != nil: // no leader, mostly
		return Stored{}, fmt.Errorf("read from %s: %w", stream, errors.Join(ErrUnavailable, a.Error))
	case a.Message == nil:
		return Stored{}, fmt.Errorf("read from %s: the answer holds no message", stream)
	}
	out := Stored{Subject: a.Message.Subject, Seq: a.Message.Seq, Time: a.Message.Time, Data: a.Message.Data}
	if len(a.Message.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(a.Message.Header)
		if err != nil {
			return Stored{}, fmt.Errorf("read from %s: headers of %d: %w", stream, out.Seq, err)
		}
		out.Header = h
	}
	return out, nil
}
