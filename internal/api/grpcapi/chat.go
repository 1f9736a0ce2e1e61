package grpcapi

import (
	"context"
	"slices"

	"github.com/genbus/genbus/internal/api/core"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

func chatRequest(ctx context.Context, m *genbusv1.ChatRequest) (admission.Request, error) {
	req, err := natsreq.FromChat(m)
	if err != nil {
		return admission.Request{}, err
	}
	err = fill(ctx, &req)
	return req, err
}

// CreateChatCompletion and the other methods are documented in chat_service.proto.
func (s chatService) CreateChatCompletion(ctx context.Context, m *genbusv1.CreateChatCompletionRequest) (*genbusv1.CreateChatCompletionResponse, error) {
	req, err := chatRequest(ctx, m.GetRequest())
	if err != nil {
		return nil, err
	}
	if req.Body.Head().Stream {
		return nil, errcode.Invalid([]errcode.Violation{{Field: "stream", Description: "must not be true in this call; use StreamChatCompletion"}})
	}
	id, raw, err := s.core.Chats.Complete(ctx, req)
	if id != "" {
		setJobID(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return &genbusv1.CreateChatCompletionResponse{ChatId: id, RawJson: raw, Completion: completion(raw)}, nil
}

// completion returns a reply in typed form, or nil if it is not a JSON object. Callers can also
// read the raw JSON.
func completion(raw []byte) *genbusv1.ChatCompletion {
	c, err := body.ParseCompletion(raw)
	if err != nil {
		return nil
	}
	return c
}

func (s chatService) StreamChatCompletion(m *genbusv1.StreamChatCompletionRequest, out grpc.ServerStreamingServer[genbusv1.StreamChatCompletionResponse]) error {
	ctx := out.Context()
	req, err := chatRequest(ctx, m.GetRequest())
	if err != nil {
		return err
	}
	if req.Body, err = asStream(req.Body); err != nil {
		return err
	}
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		return s.core.Chats.Stream(ctx, req, &sink{out: out, sent: sent})
	})
}

// asStream sets stream to true in a body that does not set it.
func asStream(d body.Document) (body.Document, error) {
	switch head := d.Head(); {
	case head.Stream:
		return d, nil
	case head.StreamSet:
		return body.Document{}, errcode.Invalid([]errcode.Violation{{Field: "stream", Description: "must not be false in this call; use CreateChatCompletion"}})
	}
	return d.With("stream", []byte("true")), nil
}

// sink sends the blocks of a chat on a gRPC stream.
type sink struct {
	out  grpc.ServerStreamingServer[genbusv1.StreamChatCompletionResponse]
	sent func(func() error) error
	id   string
}

func (s *sink) Job(id string) {
	s.id = id
	setJobID(s.out.Context(), id)
}

func (s *sink) Block(data []byte, index uint64, _ bool) error {
	m := &genbusv1.StreamChatCompletionResponse{RawJson: slices.Clone(data), Index: index, ChatId: s.id}
	if chunk, err := body.ParseChunk(data); err == nil {
		m.Chunk = chunk
	}
	return s.sent(func() error { return s.out.Send(m) })
}

// Flush does nothing because Block holds nothing back.
func (s *sink) Flush() {}

func (s chatService) SubmitChatCompletion(ctx context.Context, m *genbusv1.SubmitChatCompletionRequest) (*genbusv1.SubmitChatCompletionResponse, error) {
	req, err := chatRequest(ctx, m.GetRequest())
	if err != nil {
		return nil, err
	}
	e, err := s.core.Jobs.Submit(ctx, req)
	if err != nil {
		return nil, err
	}
	setState(ctx, s.core.Jobs, e.Job)
	return &genbusv1.SubmitChatCompletionResponse{Chat: core.ChatOf(e)}, nil
}

// GetChatCompletion returns a chat. If the chat has completed, the answer includes the reply in
// typed form, which may have to be fetched from the object store.
func (s chatService) GetChatCompletion(ctx context.Context, m *genbusv1.GetChatCompletionRequest) (*genbusv1.GetChatCompletionResponse, error) {
	e, err := s.core.Jobs.Get(ctx, callOf(ctx).name(subject.Chat, m.GetId()))
	if err != nil {
		return nil, err
	}
	setState(ctx, s.core.Jobs, e.Job)
	out := &genbusv1.GetChatCompletionResponse{Chat: core.ChatOf(e), ReplacedBy: s.core.Jobs.ReplacedBy(ctx, e)}
	if e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return out, nil
	}
	raw, err := s.core.Chats.Reply(ctx, core.ChatOf(e))
	if err != nil {
		return nil, err
	}
	out.Completion = completion(raw)
	return out, nil
}

func (s chatService) WatchChatCompletion(m *genbusv1.WatchChatCompletionRequest, out grpc.ServerStreamingServer[genbusv1.WatchChatCompletionResponse]) error {
	ctx := out.Context()
	name := callOf(ctx).name(subject.Chat, m.GetId())
	items, err := s.core.Watcher.Chat(ctx, name, m.GetResumeToken())
	if err != nil {
		return err
	}
	setJobID(ctx, name.ID)
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	return send(s.log, s.core.WriteTimeout, func(sent func(func() error) error) error {
		return s.core.Watcher.Count(subject.Chat, callOf(ctx).ingress, func() error {
			for item, err := range items {
				if err != nil {
					return err
				}
				if err := sent(func() error { return out.Send(watchResponse(item)) }); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func watchResponse(item chatlog.Item) *genbusv1.WatchChatCompletionResponse {
	m := &genbusv1.WatchChatCompletionResponse{ResumeToken: item.Token}
	switch {
	case item.Event != nil:
		event, _ := publisher.Message(item.Event.Event).(*genbusv1.ChatEvent)
		m.Item = &genbusv1.WatchChatCompletionResponse_Event{Event: event}
	case item.Chunk != nil:
		m.Item = &genbusv1.WatchChatCompletionResponse_Chunk{Chunk: item.Chunk}
	case item.Gap != nil:
		m.Item = &genbusv1.WatchChatCompletionResponse_Gap{Gap: item.Gap}
	}
	return m
}

func (s chatService) CancelChatCompletion(ctx context.Context, m *genbusv1.CancelChatCompletionRequest) (*genbusv1.CancelChatCompletionResponse, error) {
	e, err := s.core.Jobs.Cancel(ctx, callOf(ctx).name(subject.Chat, m.GetId()))
	if err != nil {
		return nil, err
	}
	setJobID(ctx, e.Job.GetId())
	return &genbusv1.CancelChatCompletionResponse{Chat: core.ChatOf(e)}, nil
}

// ListChatCompletions lists chats without their replies.
func (s chatService) ListChatCompletions(ctx context.Context, m *genbusv1.ListChatCompletionsRequest) (*genbusv1.ListChatCompletionsResponse, error) {
	page, err := listPage(ctx, s.core, subject.Chat, m)
	if err != nil {
		return nil, err
	}
	return core.ChatPage(page), nil
}
