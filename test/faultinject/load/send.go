package load

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject/check"
)

func (c *client) send(ctx context.Context, at int, w wish, expires time.Time, a *answer) {
	switch w.entry.ingress {
	case "inbox":
		c.publish(ctx, w, expires, a)
	case "call":
		c.call(ctx, w, expires, a)
	case "grpc":
		c.rpc(ctx, at, w, expires, a)
	default:
		c.post(ctx, at, w, expires, a)
	}
}

func (c *client) message(ctx context.Context, subj string, w wish, expires time.Time) (*nats.Msg, error) {
	m := nats.NewMsg(subj)
	if w.entry.form == asJSON {
		m.Header.Set(subject.HeaderContentType, subject.ContentTypeJSON)
		m.Header.Set(subject.HeaderLabels, check.MarkLabel+"="+w.marker)
		if w.key != "" {
			m.Header.Set(subject.HeaderRequestID, w.key)
		}
		m.Data = w.body
		return m, nil
	}
	var request proto.Message
	var err error
	if w.kind == subject.Chat {
		request, err = w.chatRequest(expires)
	} else {
		request, err = w.videoRequest(expires)
	}
	if err != nil {
		return nil, err
	}
	m.Data, err = proto.Marshal(request)
	if err == nil && w.stored {
		m.Data, err = c.store(ctx, w.kind, m.Data)
	}
	return m, err
}

func (w wish) videoRequest(expires time.Time) (*genbusv1.VideoRequest, error) {
	out := &genbusv1.VideoRequest{RequestId: w.key, Labels: map[string]string{check.MarkLabel: w.marker}, ExpiresAt: stamp(expires)}
	if w.entry.form == raw {
		out.Body = &genbusv1.VideoRequest_RawJson{RawJson: w.body}
		return out, nil
	}
	video, err := typedVideo(w.body)
	out.Body = &genbusv1.VideoRequest_Video{Video: video}
	return out, err
}

func (w wish) chatRequest(expires time.Time) (*genbusv1.ChatRequest, error) {
	out := &genbusv1.ChatRequest{RequestId: w.key, Labels: map[string]string{check.MarkLabel: w.marker}, ExpiresAt: stamp(expires)}
	if w.entry.form == raw {
		out.Body = &genbusv1.ChatRequest_RawJson{RawJson: w.body}
		return out, nil
	}
	chat, err := typedChat(w.body)
	out.Body = &genbusv1.ChatRequest_Chat{Chat: chat}
	return out, err
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// natsTimeout bounds a request over NATS, because one that reached no server is never answered.
const natsTimeout = 5 * time.Second

// publish puts the request into the inbox. The answer confirms only that the request is stored.
func (c *client) publish(ctx context.Context, w wish, expires time.Time, a *answer) {
	m, err := c.message(ctx, c.o.Names.Request(w.kind, c.tenant.Name), w, expires)
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	if err == nil {
		_, err = c.js.PublishMsg(ctx, m)
	}
	var refused *jetstream.APIError
	switch {
	case err == nil:
	case errors.Is(err, errNotStored):
		a.lost(err)
		a.NotSent = true
	case errors.As(err, &refused):
		a.Code = "queue_full" // the stream has reached its own limits
	default:
		a.lost(err)
		a.NotSent = notSent(err)
	}
}

// notSent reports whether a NATS client failed before it sent anything.
func notSent(err error) bool {
	for _, e := range []error{
		nats.ErrNoResponders, jetstream.ErrNoStreamResponse, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrConnectionClosed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (c *client) call(ctx context.Context, w wish, expires time.Time, a *answer) {
	m, err := c.message(ctx, c.o.Names.Call(w.kind, c.tenant.Name), w, expires)
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	var reply *nats.Msg
	if err == nil {
		reply, err = c.nc.RequestMsgWithContext(ctx, m)
	}
	if err != nil {
		a.lost(err)
		a.NotSent = notSent(err) || errors.Is(err, errNotStored)
		return
	}
	a.Job, a.Code = reply.Header.Get(subject.HeaderJobID), reply.Header.Get(subject.HeaderErrorCode)
	switch {
	case a.Code != "":
	case w.entry.form == asJSON:
		a.Status = shortOf(reply.Data).Status
	case w.kind == subject.Chat:
		var r genbusv1.SubmitChatCompletionResponse
		a.decoded(proto.Unmarshal(reply.Data, &r), r.GetChat())
	default:
		var r genbusv1.CreateVideoTaskResponse
		a.decoded(proto.Unmarshal(reply.Data, &r), r.GetTask())
	}
}

// decoded records the job in an answer.
func (a *answer) decoded(err error, job task.Job) {
	if err != nil {
		a.lost(err)
		return
	}
	a.Job, a.Status, a.Version = job.GetId(), task.StatusWord(job.GetStatus()), job.GetVersion()
}
