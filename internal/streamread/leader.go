// Package streamread reads single messages of a stream from its leader: the request and
// the answer, as bytes. It sends nothing. A direct get is answered by any replica and
// was stale in one of ten reads on three nodes, so it is used for decisions only where there
// is one replica (broker.Broker.Last).
package streamread

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrNoMessage says that a read found nothing.
	ErrNoMessage = errors.New("no message")
	// ErrRefused says that the stream could not be read: it has no leader, mostly.
	// The *jetstream.APIError is in the chain.
	ErrRefused = errors.New("the stream cannot be read")
)

// Message is a message as a stream holds it.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// Subject is where the leader of a stream takes reads.
func Subject(stream string) string { return "$JS.API.STREAM.MSG.GET." + stream }

// Request is one read. Last, Next and At make them.
type Request struct {
	Seq    uint64 `json:"seq,omitempty"`
	LastBy string `json:"last_by_subj,omitempty"`
	NextBy string `json:"next_by_subj,omitempty"`
}

// Last asks for the last message on a subject (or pattern).
func Last(subject string) Request { return Request{LastBy: subject} }

// Next asks for the first message on a subject with sequence seq or above.
func Next(subject string, seq uint64) Request { return Request{NextBy: subject, Seq: max(seq, 1)} }

// At asks for the message with a sequence.
func At(seq uint64) Request { return Request{Seq: seq} }

// Encode is the request as the leader takes it.
func (r Request) Encode() ([]byte, error) { return json.Marshal(r) }

// String says what is asked for.
func (r Request) String() string {
	if r.LastBy == "" && r.NextBy == "" {
		return fmt.Sprintf("sequence %d", r.Seq)
	}
	return r.LastBy + r.NextBy
}

type answer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string    `json:"subject"`
		Seq     uint64    `json:"seq"`
		Header  []byte    `json:"hdrs"`
		Data    []byte    `json:"data"`
		Time    time.Time `json:"time"`
	} `json:"message"`
}

// Decode reads the leader's answer: a message, ErrNoMessage, ErrRefused, or what is
// wrong with it.
func Decode(data []byte) (Message, error) {
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return Message{}, fmt.Errorf("unreadable answer: %w", err)
	}
	switch {
	case a.Error != nil && a.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Message{}, ErrNoMessage
	case a.Error != nil:
		return Message{}, fmt.Errorf("%w: %w", ErrRefused, a.Error)
	case a.Message == nil:
		return Message{}, errors.New("the answer holds no message")
	}
	out := Message{Subject: a.Message.Subject, Seq: a.Message.Seq, Time: a.Message.Time, Data: a.Message.Data}
	if len(a.Message.Header) > 0 {
		h, err := nats.DecodeHeadersMsg(a.Message.Header)
		if err != nil {
			return Message{}, fmt.Errorf("headers of %d: %w", out.Seq, err)
		}
		out.Header = h
	}
	return out, nil
}
