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

// Direct gets are answered by any replica, with many messages at a time, and without
// the base64 and the JSON of the leader's answers. A replica has a prefix of the stream:
// it may lack what was stored last, and it lacks nothing before that. So what it has can
// be used, and what it does not have is asked of the leader.

// Bounds of one direct get. The embedded server answers on the connection that asked,
// which takes nothing else meanwhile.
const (
	pageMessages = 512
	pageBytes    = 256 << 10
	// MostSubjects is how many subjects Behind asks for at a time. The server answers
	// for up to 1,024.
	MostSubjects = 256
	behindBytes  = 4 << 20
)

// directRequest is the body of a direct get (ADR 31 of NATS).
type directRequest struct {
	Seq       uint64   `json:"seq,omitempty"`
	NextBy    string   `json:"next_by_subj,omitempty"`
	MultiLast []string `json:"multi_last,omitempty"`
	Batch     int      `json:"batch,omitempty"`
	MaxBytes  int      `json:"max_bytes,omitempty"`
}

// Headers of the answers that the client has no names for.
const (
	headerUpTo    = "Nats-UpTo-Sequence"
	headerPending = "Nats-Num-Pending"
	headerStatus  = "Status"
)

// directAnswer is what one replica said.
type directAnswer struct {
	messages []Stored
	// through is the sequence up to which the replica has the stream and answered
	// completely; 0: it did not say.
	through uint64
}

// Page reads the first messages on a subject with sequence from or above, in order and
// without a gap; none: the leader has none. More may follow.
func (r *reader) Page(ctx context.Context, stream, subject string, from uint64) ([]Stored, error) {
	a, err := r.askReplica(ctx, stream, directRequest{Seq: max(from, 1), NextBy: subject, Batch: pageMessages, MaxBytes: pageBytes})
	if len(a.messages) > 0 {
		return a.messages, nil // in order, whatever became of the rest
	}
	if err != nil && !errors.Is(err, nats.ErrNoResponders) { // the stream may do without direct gets
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

// Known is what is known of a subject: its last sequence, or one up to which it is known
// to have no other messages.
type Known struct {
	Subject string
	Seq     uint64
}

// Behind returns which of the subjects, by index, have a message above what is known of
// them, as the leader knew the stream when state was read; with missing, also those that
// have no message. It may return a subject that has neither: what no replica can say for
// sure is returned. It leaves out none with news. One whose messages were removed it may
// leave out as long as a replica has not followed the removal, which no sequence shows:
// ask again later. At most MostSubjects.
func (r *reader) Behind(ctx context.Context, state *jetstream.StreamInfo, known []Known, missing bool) ([]int, error) {
	req := directRequest{Seq: state.State.LastSeq, MultiLast: make([]string, len(known)), MaxBytes: behindBytes}
	for i, k := range known {
		req.MultiLast[i], req.Seq = k.Subject, min(req.Seq, k.Seq)
	}
	switch {
	case missing:
		req.Seq = 1
	case req.Seq >= state.State.LastSeq:
		return nil, nil // nothing was stored since
	default:
		req.Seq++
	}
	a, fresh, err := r.askLasts(ctx, state, req)
	if err != nil {
		return nil, err
	}
	return a.behind(known, missing, fresh), nil
}

// askLasts asks until a replica has the stream up to state; not fresh: none had. A replica
// that finds no message on any of the subjects does not say up to where. Then one more
// subject, of which the leader has a message, makes it say so.
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
				return a, true, nil // all that could be news is gone
			}
			if err != nil {
				return a, false, err
			}
			asked, req.MultiLast = true, append(req.MultiLast, m.Subject)
			continue
		case wait > 100*time.Millisecond:
			return a, false, nil
		}
		if err := Wait(ctx, wait); err != nil { // the replica follows in a moment
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

// askReplica asks once, over one connection. What came before an error is returned too.
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
	defer func() { _ = sub.Unsubscribe() }() // a closed connection has no subscription left
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
		case "204": // the end
			if Number(m.Header, headerPending) == 0 {
				a.through = Number(m.Header, headerUpTo)
			}
			return a, nil
		case "404": // nothing
			return a, nil
		default:
			return a, fmt.Errorf("the server answered %s %s", status, m.Header.Get("Description"))
		}
		// Each names the one before it: none was lost on the way.
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

// direct is get without the detour over JSON, answered by any replica.
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

// Number reads a header of a message that the server adds; 0 where it has no number.
func Number(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(h.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
