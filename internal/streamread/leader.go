// Package streamread encodes requests for single messages to a stream's leader and decodes the
// answers. Callers send the requests. A direct get may be answered by any replica, and on three
// nodes one in ten such reads was stale. Decisions therefore use a direct get only on unreplicated
// streams (see broker.Broker.Last).
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
	// ErrNoMessage is returned if no message matches a read.
	ErrNoMessage = errors.New("no message")
	// ErrRefused is returned if the stream could not be read, usually because it has no leader. It
	// wraps the *jetstream.APIError.
	ErrRefused = errors.New("the stream cannot be read")
)

// Message is a message stored in a stream.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// Subject returns the subject on which a stream's leader answers reads.
func Subject(stream string) string { return "$JS.API.STREAM.MSG.GET." + stream }

// Request is one read. Build it with Last, Next or At.
type Request struct {
	Seq    uint64 `json:"seq,omitempty"`
	LastBy string `json:"last_by_subj,omitempty"`
	NextBy string `json:"next_by_subj,omitempty"`
}

// Last requests the last message on a subject or pattern.
func Last(subject string) Request { return Request{LastBy: subject} }

// Next requests the first message on a subject whose sequence is at least seq.
func Next(subject string, seq uint64) Request { return Request{NextBy: subject, Seq: max(seq, 1)} }

// At requests the message with the given sequence.
func At(seq uint64) Request { return Request{Seq: seq} }

// Encode returns the payload of the request.
func (r Request) Encode() ([]byte, error) { return json.Marshal(r) }

// String names the subject or sequence of the request, for errors.
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

// Decode parses the leader's answer. It returns the message, ErrNoMessage, an error that wraps
// ErrRefused, or the reason why the answer is malformed.
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
