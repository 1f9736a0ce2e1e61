package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
)

// DeadLetterActions is what operators do with dead letters: read them, make jobs of them, drop them.
type DeadLetterActions struct {
	Config    *config.Live
	Names     subject.Space
	Streams   deadletter.Streams
	Log       *joblog.Log
	Bodies    *broker.Bodies
	Uploads   *natsreq.Uploads
	Admission *admission.Admission
	Items     queue.Items
	Routes    *routes.Table
	Logger    *slog.Logger

	stored *deadletter.Extent // those that there are for this caller; nil for all
}

// within returns p for a caller to whom only the letters of an extent exist: the sequence of
// another one may be that of a letter of a stream that was created again.
func (p *DeadLetterActions) within(e deadletter.Extent) *DeadLetterActions {
	q := *p
	q.stored = &e
	return &q
}

// letter is a dead letter as its stream has it.
type letter struct {
	*genbusv1.DeadLetter
	seq     uint64
	message string // its Nats-Msg-Id
}

// letter reads one letter.
func (p *DeadLetterActions) letter(ctx context.Context, seq uint64) (letter, error) {
	if seq == 0 {
		return letter{}, errcode.Invalid([]errcode.Violation{{Field: "sequence", Description: "is required"}})
	}
	m, err := p.Streams.At(ctx, seq)
	if errors.Is(err, broker.ErrNoMessage) || err == nil && p.stored != nil && !p.stored.Has(m) {
		return letter{}, errcode.New(errcode.LetterNotFound, "dead letter %d not found: it never existed, or was redriven, attached, dropped or expired", seq)
	}
	if err != nil {
		return letter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	return decode(m), nil
}

// ofJob reads the letters of an accepted job, and of earlier ones of its id. They are few.
func (p *DeadLetterActions) ofJob(ctx context.Context, n subject.JobName) (found []letter, err error) {
	for seq := uint64(1); ; {
		m, err := p.Streams.NextOn(ctx, p.Streams.OfJob(n), seq)
		if errors.Is(err, broker.ErrNoMessage) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		found, seq = append(found, decode(m)), m.Seq+1
	}
}

func decode(m broker.Stored) letter {
	l := letter{DeadLetter: &genbusv1.DeadLetter{}, seq: m.Seq, message: m.Header.Get(jetstream.MsgIDHeader)}
	if err := proto.Unmarshal(m.Data, l.DeadLetter); err != nil {
		f := errcode.New(errcode.Internal, "message %d on %s is not a dead letter; it can only be dropped", m.Seq, m.Subject)
		l.DeadLetter = &genbusv1.DeadLetter{Error: f.TaskError()}
	}
	return l
}

// size is that of the letter's whole request, wherever it is.
func (l letter) size() uint64 {
	switch {
	case l.GetDataRef() != nil:
		return l.GetDataRef().GetSize()
	case l.GetCut() != nil:
		return l.GetCut().GetSize()
	default:
		return uint64(len(l.GetData()))
	}
}

// stored is the letter as callers get it. It shares the letter's parts.
func (l letter) stored() *genbusv1.StoredDeadLetter {
	return &genbusv1.StoredDeadLetter{
		Sequence: l.seq, Letter: l.DeadLetter, DataSize: l.size(), Rejected: deadletter.IsRejected(l.seq), Attachable: l.attachable(),
	}
}

// data is the letter's request, wherever it is stored.
func (p *DeadLetterActions) data(ctx context.Context, l letter) ([]byte, error) {
	if l.GetDataRef() == nil {
		return l.GetData(), nil
	}
	data, err := p.Bodies.Get(ctx, publisher.BodyOf(l.GetDataRef()))
	if errors.Is(err, broker.ErrBodyLost) {
		return nil, errcode.New(errcode.InputLost, "dead letter %d: its request is missing from the object store", l.seq)
	}
	return data, err
}

// Summary returns one letter without the data of its request.
func (p *DeadLetterActions) Summary(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
	l, err := p.letter(ctx, seq)
	if err != nil {
		return nil, err
	}
	out := l.stored()
	out.Letter.Data, out.Letter.Reply = nil, nil
	return out, nil
}

// Letter returns one letter, whole: data in the object store is filled
// in, and data_ref is absent then. Data that is gone, or with which the letter would
// be larger than grpc.max_message_bytes, stays where data_ref says.
func (p *DeadLetterActions) Letter(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
	l, err := p.letter(ctx, seq)
	if err != nil {
		return nil, err
	}
	out := l.stored()
	if l.GetDataRef() == nil || int64(proto.Size(out))+int64(l.size())+frame > int64(p.Config.Now().GRPC.MaxMessageBytes) {
		return out, nil
	}
	data, err := p.data(ctx, l)
	if errcode.CodeOf(err) == errcode.InputLost {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	out.Letter.Data, out.Letter.DataRef = data, nil
	return out, nil
}

// frame is room for the messages around a letter, in bytes.
const frame = 64
