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

// DeadLetterActions reads dead letters, creates jobs from them and drops them.
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

	stored *deadletter.Extent // visible dead letters; nil for all
}

// within returns a copy of p that sees only the dead letters of an extent. If a stream was
// recreated, a sequence may now belong to another dead letter.
func (p *DeadLetterActions) within(e deadletter.Extent) *DeadLetterActions {
	q := *p
	q.stored = &e
	return &q
}

// deadLetter is a dead letter as stored in its stream.
type deadLetter struct {
	*genbusv1.DeadLetter
	seq     uint64
	message string // Nats-Msg-Id
}

func (p *DeadLetterActions) deadLetter(ctx context.Context, seq uint64) (deadLetter, error) {
	if seq == 0 {
		return deadLetter{}, errcode.Invalid([]errcode.Violation{{Field: "sequence", Description: "is required"}})
	}
	m, err := p.Streams.At(ctx, seq)
	if errors.Is(err, broker.ErrNoMessage) || err == nil && p.stored != nil && !p.stored.Has(m) {
		return deadLetter{}, errcode.New(errcode.DeadLetterNotFound, "dead letter %d not found: it never existed, or was redriven, attached, dropped or expired", seq)
	}
	if err != nil {
		return deadLetter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	return decode(m), nil
}

// ofJob reads the few dead letters of an accepted job and of earlier jobs with the same ID.
func (p *DeadLetterActions) ofJob(ctx context.Context, n subject.JobName) (found []deadLetter, err error) {
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

func decode(m broker.Stored) deadLetter {
	l := deadLetter{DeadLetter: &genbusv1.DeadLetter{}, seq: m.Seq, message: m.Header.Get(jetstream.MsgIDHeader)}
	if err := proto.Unmarshal(m.Data, l.DeadLetter); err != nil {
		f := errcode.New(errcode.Internal, "message %d on %s is not a dead letter; it can only be dropped", m.Seq, m.Subject)
		l.DeadLetter = &genbusv1.DeadLetter{Error: f.TaskError()}
	}
	return l
}

// size returns the size of the whole request, wherever it is stored.
func (l deadLetter) size() uint64 {
	switch {
	case l.GetDataRef() != nil:
		return l.GetDataRef().GetSize()
	case l.GetCut() != nil:
		return l.GetCut().GetSize()
	default:
		return uint64(len(l.GetData()))
	}
}

// stored returns the dead letter as callers see it. The result shares memory with l.
func (l deadLetter) stored() *genbusv1.StoredDeadLetter {
	return &genbusv1.StoredDeadLetter{
		Sequence: l.seq, Letter: l.DeadLetter, DataSize: l.size(), Rejected: deadletter.IsRejected(l.seq), Attachable: l.attachable(),
	}
}

// data returns the request, wherever it is stored.
func (p *DeadLetterActions) data(ctx context.Context, l deadLetter) ([]byte, error) {
	if l.GetDataRef() == nil {
		return l.GetData(), nil
	}
	data, err := p.Bodies.Get(ctx, publisher.BodyOf(l.GetDataRef()))
	if errors.Is(err, broker.ErrBodyLost) {
		return nil, errcode.New(errcode.InputLost, "dead letter %d: its request is missing from the object store", l.seq)
	}
	return data, err
}

// Summary returns one dead letter without its request and reply.
func (p *DeadLetterActions) Summary(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
	l, err := p.deadLetter(ctx, seq)
	if err != nil {
		return nil, err
	}
	out := l.stored()
	out.Letter.Data, out.Letter.Reply = nil, nil
	return out, nil
}

// DeadLetter returns one dead letter. Data from the object store replaces data_ref, unless the data
// is lost or would make the message exceed grpc.max_message_bytes.
func (p *DeadLetterActions) DeadLetter(ctx context.Context, seq uint64) (*genbusv1.StoredDeadLetter, error) {
	l, err := p.deadLetter(ctx, seq)
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

// frame is the number of bytes reserved for the messages around a dead letter or body.
const frame = 64
