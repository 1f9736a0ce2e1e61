package chatlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tail"
)

// source reads the chunks of chats for package tail. The position of an item is its sequence. A
// message that is not a chunk becomes an item without a value.
type source struct{ *Log }

type item = tail.Item[*genbusv1.ChatChunk]

// itemSize is the memory, in bytes, that an item needs in addition to its blocks.
const itemSize = 256

func newItem(seq, before uint64, h nats.Header, data []byte) item {
	chunk, err := publisher.DecodeChunk(h, data)
	if err != nil {
		chunk = nil // not a chunk; the next one reveals the gap
	}
	return item{Pos: seq, Before: before, Seq: seq, Size: itemSize + len(data), Value: chunk}
}

// Epoch returns the creation time of the stream. It identifies a recreated stream, in which
// sequences restart.
func (s source) Epoch(ctx context.Context) (int64, error) {
	info, err := s.stream.info(ctx, freshEnough)
	return created(info), err
}

// Listen subscribes to the republished chunks of one chat. A later read on the same connection
// reaches the leader after the subscription, so no chunk is lost between the two.
func (s source) Listen(n subject.JobName, live func(item, error)) (stop func(), err error) {
	sub, err := s.b.Conn().Subscribe(s.b.Names().LiveChunk(n.Tenant, n.ID), func(m *nats.Msg) {
		seq := broker.Number(m.Header, jetstream.SequenceHeader)
		live(newItem(seq, broker.Number(m.Header, jetstream.LastSequenceHeader), m.Header, m.Data), nil)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to live chunks: %w", errors.Join(broker.ErrUnavailable, err))
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only on a closed connection
}

func (s source) chunks(n subject.JobName) (stream, subj string) {
	names := s.b.Names()
	return names.Chunks(), names.Chunk(n.Tenant, n.ID)
}

// Head reads the last chunk of a chat from the leader.
func (s source) Head(ctx context.Context, n subject.JobName) (item, bool, error) {
	stream, subj := s.chunks(n)
	m, err := s.b.Last(ctx, stream, subj)
	if errors.Is(err, broker.ErrNoMessage) || noStream(err) {
		return item{}, false, nil
	}
	if err != nil {
		return item{}, false, err
	}
	return newItem(m.Seq, m.Seq-1, m.Header, m.Data), true, nil
}

// Page reads the chunks whose sequence is above both after and seq.
func (s source) Page(ctx context.Context, n subject.JobName, after, seq uint64) ([]item, error) {
	stream, subj := s.chunks(n)
	stored, err := s.b.Page(ctx, stream, subj, max(after, seq)+1)
	if noStream(err) {
		return nil, nil
	}
	out := make([]item, 0, len(stored))
	for _, m := range stored {
		out = append(out, newItem(m.Seq, after, m.Header, m.Data))
		after = m.Seq
	}
	return out, err
}

// Behind returns which of many chats have chunks above their known sequence.
func (s source) Behind(ctx context.Context, known []tail.Known[subject.JobName], _ bool) (tail.Change, error) {
	info, err := s.stream.info(ctx, 0)
	if err != nil || info == nil {
		return tail.Change{}, err
	}
	subjects := make([]broker.Known, len(known))
	for i, k := range known {
		_, subj := s.chunks(k.Key)
		subjects[i] = broker.Known{Subject: subj, Seq: k.Seq}
	}
	// A chat without chunks is not missing.
	behind, err := s.b.Behind(ctx, info, subjects, false)
	return tail.Change{Behind: behind, Seq: info.State.LastSeq, Epoch: created(info)}, err
}
