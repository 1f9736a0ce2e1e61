package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/streamread"
)

// Any replica may answer a direct get. The answer can contain many messages and avoids the base64
// and JSON encoding of the leader's answers. A replica has a prefix of the stream, so the messages
// that it returns are valid. But only the leader can confirm that a message does not exist.

// These constants limit one direct get. The embedded server answers on the connection that asked,
// and blocks it until the answer is complete.
const (
	pageMessages = 512
	pageBytes    = 256 << 10
	// MaxSubjects is the maximum number of subjects in one call of Behind or Lasts. The server
	// accepts up to 1,024.
	MaxSubjects = 256
	behindBytes = 4 << 20
)

// directRequest is the payload of a direct get (NATS ADR 31).
type directRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	NextBy    string   `json:"next_by_subj,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
}

// Headers for which the client library has no constants.
const (
	headerUpTo    = "Nats-UpTo-Sequence"
	headerPending = "Nats-Num-Pending"
	headerStatus  = "Status"
)

type directAnswer struct {
	messages []Stored
	// through is the sequence up to which the replica has the stream and its answer is complete. It
	// is 0 if the replica did not report it.
	through uint64
}

// Page returns the first messages on a subject whose sequence is at least from, in order and
// without gaps. More may follow. An empty page means that the leader has no such message.
func (r *reader) Page(ctx context.Context, stream, subject string, from uint64) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{Seq: max(from, 1), NextBy: subject, Batch: pageMessages, MaxBytes: pageBytes})
	if len(a.messages) > 0 {
		return a.messages, nil // in order, so usable despite err
	}
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // otherwise, the stream may not allow direct gets
		return nil, err
	}
	m, err := r.Next(ctx, stream, subject, from)
	switch {
	case errors.Is(err, ErrNoMessage):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []Stored{m}, nil
}

// Known pairs a subject with the sequence up to which the caller knows its messages.
type Known struct {
	Subject string
	Seq     uint64
}

// Behind returns the indexes of the subjects that have a message above their known sequence, as of
// state, which the leader reported. If missing is true, it also returns subjects without messages.
// Behind never omits a subject with new messages, but if no replica is current, it may return
// subjects without new messages. If the messages of a subject were removed, Behind omits the
// subject until a replica has applied the removal, so call it again later. len(known) must not
// exceed MaxSubjects.
func (r *reader) Behind(ctx context.Context, state *jetstream.StreamInfo, known []Known, missing bool) ([]int, error) {
	req := directRequest{Seq: state.State.LastSeq, MultiLast: make([]string, len(known)), MaxBytes: behindBytes}
	for i, k := range known {
		req.MultiLast[i], req.Seq = k.Subject, min(req.Seq, k.Seq)
	}
	switch {
	case missing:
		req.Seq = 1
	case req.Seq >= state.State.LastSeq:
		return nil, nil // nothing has been stored since
	default:
		req.Seq++
	}
	a, fresh, err := r.askLasts(ctx, state, req)
	if err != nil {
		return nil, err
	}
	return a.behind(known, missing, fresh), nil
}

// askLasts repeats req until the answer comes from a replica that has the stream up to state. fresh
// is false if none does in time. A replica that finds no message on any subject does not report its
// position, so askLasts adds a subject on which the leader has a message.
func (r *reader) askLasts(ctx context.Context, state *jetstream.StreamInfo, req directRequest) (a directAnswer, fresh bool, err error) {
	stream, last, asked := state.Config.Name, state.State.LastSeq, false
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		a, err = r.askReplica(ctx, stream, req)
		none := a.through == 0 && len(a.messages) == 0
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return a, false, nil
		case err != nil:
			return a, false, err
		case a.through >= last || none && state.Config.Replicas <= 1:
			return a, true, nil
		case none && !asked:
			m, err := r.Next(ctx, stream, ">", req.Seq)
			if errors.Is(err, ErrNoMessage) || err == nil && m.Seq > last {
				return a, true, nil // all candidates were removed
			}
			if err != nil {
				return a, false, err
			}
			asked, req.MultiLast = true, append(req.MultiLast, m.Subject)
			continue
		case wait > 100*time.Millisecond:
			return a, false, nil
		}
		if err := Wait(ctx, wait); err != nil { // the replica is catching up
			return a, false, err
		}
	}
}

func (a directAnswer) behind(known []Known, missing, fresh bool) (out []int) {
	last := make(map[string]uint64, len(a.messages))
	for _, m := range a.messages {
		last[m.Subject] = m.Seq
	}
	for i, k := range known {
		seq, found := last[k.Subject]
		if !fresh || seq > k.Seq || missing && !found {
			out = append(out, i)
		}
	}
	return out
}

// askReplica sends one direct get over one connection. If an error occurs, it also returns the
// messages received so far.
func (r *reader) askReplica(ctx context.Context, stream string, req directRequest) (directAnswer, error) {
	ctx, cancel := readTimeout(ctx, stream)
	defer cancel()
	down, _ := r.link.state.now()
	try, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer context.AfterFunc(down, func() { lost(nats.ErrDisconnected) })()
	a, err := r.collect(try, stream, req)
	if err != nil {
		err = fmt.Errorf("read from %s: %w", stream, errors.Join(ErrUnavailable, context.Cause(try), err))
	}
	return a, err
}

func (r *reader) collect(ctx context.Context, stream string, req directRequest) (a directAnswer, err error) {
	body, err := json.Marshal(req)
	if err != nil {
		return a, err
	}
	nc := r.link.nc
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return a, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	if err := nc.PublishRequest(directSubject(stream), sub.Subject, body); err != nil {
		return a, err
	}
	for last := uint64(0); ; {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return a, err
		}
		switch status := m.Header.Get(headerStatus); status {
		case "":
		case "204": // end of the answer
			if Number(m.Header, headerPending) == 0 {
				a.through = Number(m.Header, headerUpTo)
			}
			return a, nil
		case "404": // no message
			return a, nil
		default:
			return a, fmt.Errorf("the server answered %s %s", status, m.Header.Get("Description"))
		}
		// Each message carries the sequence of its predecessor, which reveals a lost message.
		if before := Number(m.Header, jetstream.LastSequenceHeader); before != last && req.NextBy != "" {
			return a, fmt.Errorf("message %d was lost in transit", before)
		}
		last = Number(m.Header, jetstream.SequenceHeader)
		stored := Stored{Subject: m.Header.Get(jetstream.SubjectHeader), Seq: last, Header: m.Header, Data: m.Data}
		if stored.Time, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
			return a, err
		}
		if stored, err = r.checked(stream, stored, nil); err != nil {
			return a, err
		}
		a.messages = append(a.messages, stored)
	}
}

// direct reads one message from any replica.
func (r *reader) direct(ctx context.Context, stream string, req streamread.Request) (Stored, error) {
	reply, err := r.read(ctx, stream, directSubject(stream), req)
	if err != nil {
		return Stored{}, err
	}
	if status := reply.Header.Get(headerStatus); status != "" {
		return Stored{}, fmt.Errorf("read %s from %s: %w: status %s", req, stream, ErrNoMessage, status)
	}
	return storedMessage(reply)
}

// Number parses a numeric header added by the server. It returns 0 if the header is missing or
// malformed.
func Number(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(h.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
