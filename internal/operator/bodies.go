package operator

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/task"
)

// Requests lets operators read the requests and replies of jobs, and submit requests again.
type Requests struct {
	Config      *config.Live
	Items       queue.Items
	Bodies      *broker.Bodies
	DeadLetters *DeadLetterActions
	Admission   *admission.Admission
}

// Values of request_from.
const (
	fromKept       = "kept"
	fromWorkItem   = "work_item"
	fromDeadLetter = "dead_letter"
)

// stored is a body and its source.
type stored struct {
	data []byte
	from string
	ref  *genbusv1.BlobRef // nil if a message contains the body
}

// Read returns the stored request of a job and, for a chat, the stored reply. Bodies that are too
// large for the answer are returned by reference.
func (p Requests) Read(ctx context.Context, e joblog.Entry) (*genbusv1.GetJobBodiesResponse, error) {
	cfg := p.Config.Now()
	if !cfg.OperatorsReadBodies {
		return nil, errcode.New(errcode.BodiesPrivate, "reading request and reply bodies is disabled; set operators_read_bodies: true")
	}
	request, err := p.find(ctx, e)
	if err != nil {
		return nil, err
	}
	reply, err := p.reply(ctx, e)
	if err != nil {
		return nil, err
	}
	out := &genbusv1.GetJobBodiesResponse{RequestFrom: request.from}
	fits := func(b stored) bool {
		return b.ref == nil || int64(proto.Size(out))+int64(len(b.data))+frame <= int64(cfg.GRPC.MaxMessageBytes)
	}
	if fits(request) {
		out.RequestJson = request.data
	} else {
		out.RequestRef = request.ref
	}
	if fits(reply) {
		out.ReplyJson = reply.data
	} else {
		out.ReplyRef = reply.ref
	}
	return out, nil
}

// find returns a job's request from its kept copy, its work item or its dead letters. It returns an
// empty body if none of them has the request.
func (p Requests) find(ctx context.Context, e joblog.Entry) (stored, error) {
	for _, look := range []func(context.Context, joblog.Entry) (stored, error){p.kept, p.inItem, p.inDeadLetter} {
		if found, err := look(ctx, e); err != nil || len(found.data) > 0 {
			return found, err
		}
	}
	return stored{}, nil
}

func (p Requests) kept(ctx context.Context, e joblog.Entry) (stored, error) {
	return p.fetch(ctx, e.Job.GetExecution().GetInput(), fromKept)
}

// fetch reads a body from the object store. It returns an empty body if ref is nil or the store no
// longer has the body.
func (p Requests) fetch(ctx context.Context, ref *genbusv1.BlobRef, from string) (stored, error) {
	if ref == nil {
		return stored{}, nil
	}
	data, err := p.Bodies.Get(ctx, publisher.BodyOf(ref))
	if errors.Is(err, broker.ErrBodyLost) {
		return stored{}, nil
	}
	return stored{data: data, from: from, ref: ref}, err
}

// inItem reads the request from the work item. It skips items of other requests with the same job
// ID.
func (p Requests) inItem(ctx context.Context, e joblog.Entry) (stored, error) {
	items, err := p.Items.All(ctx, e.Name())
	if err != nil {
		return stored{}, err
	}
	for _, i := range items {
		item, err := i.Decode()
		if err != nil || !task.SameRequest(item, e.Job.GetExecution()) {
			continue
		}
		if len(item.GetBody()) > 0 {
			return stored{data: item.GetBody(), from: fromWorkItem}, nil
		}
		if found, err := p.fetch(ctx, item.GetBodyRef(), fromWorkItem); err != nil || len(found.data) > 0 {
			return found, err
		}
	}
	return stored{}, nil
}

// inDeadLetter reads the request from a dead letter. It skips the dead letters of an erased job
// that had the same ID.
func (p Requests) inDeadLetter(ctx context.Context, e joblog.Entry) (stored, error) {
	letters, err := p.DeadLetters.ofJob(ctx, e.Name())
	if err != nil {
		return stored{}, err
	}
	for _, l := range letters {
		if l.GetWork() == nil || !task.SameRequest(l.GetWork(), e.Job.GetExecution()) {
			continue
		}
		if len(l.GetData()) > 0 {
			return stored{data: l.GetData(), from: fromDeadLetter}, nil
		}
		if found, err := p.fetch(ctx, l.GetDataRef(), fromDeadLetter); err != nil || len(found.data) > 0 {
			return found, err
		}
	}
	return stored{}, nil
}

func (p Requests) reply(ctx context.Context, e joblog.Entry) (stored, error) {
	chat, ok := e.Job.(*genbusv1.Chat)
	if !ok {
		return stored{}, nil
	}
	if chat.GetReplyRef() != nil {
		return p.fetch(ctx, chat.GetReplyRef(), "")
	}
	return stored{data: chat.GetReplyJson()}, nil
}
