package natsapi

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
)

// operations returns the endpoints about existing jobs and models.
func (c *calls) operations(reads, lists, downloads chan struct{}) []endpoint {
	const video, chat, every = subject.Video, subject.Chat, "*"
	late := errcode.New(errcode.BrokerUnavailable, "no answer within %s", callTimeout).WithRetryAfter(time.Second)
	n := c.names
	return []endpoint{
		{name: "get-video", subject: n.Get(video, every), span: "genbus.get", slots: reads, answer: operation(c, c.getVideo), late: late},
		{name: "get-chat", subject: n.Get(chat, every), span: "genbus.get", slots: reads, answer: operation(c, c.getChat), late: late},
		{name: "list-video", subject: n.List(video, every), span: "genbus.list", slots: lists, answer: operation(c, c.listVideos), late: late},
		{name: "list-chat", subject: n.List(chat, every), span: "genbus.list", slots: lists, answer: operation(c, c.listChats), late: late},
		{name: "cancel-video", subject: n.Cancel(video, every), span: "genbus.cancel", slots: reads, answer: operation(c, c.cancelVideo), late: late},
		{name: "cancel-chat", subject: n.Cancel(chat, every), span: "genbus.cancel", slots: reads, answer: operation(c, c.cancelChat), late: late},
		{name: "models", subject: n.Models(every), span: "genbus.models", slots: reads, answer: operation(c, c.listModels), late: late},
		{name: "content", subject: n.Content(every), span: "genbus.content", slots: downloads, answer: c.download, late: errLateContent},
	}
}

// operation returns a handler that decodes a request and sends the answer of run.
func operation[T any, M interface {
	*T
	proto.Message
}](c *calls, run func(ctx context.Context, tenant string, m M) (result, error),
) func(context.Context, micro.Request) {
	return func(ctx context.Context, r micro.Request) {
		m := M(new(T))
		tenant, err := c.enter(r, m)
		if err != nil {
			c.fail(ctx, r, err)
			return
		}
		out, err := run(ctx, tenant, m)
		if err != nil {
			c.fail(ctx, r, err)
			return
		}
		c.reply(ctx, r, out)
	}
}

// enter counts a request for its tenant's rate limit and decodes it into m.
func (c *calls) enter(r micro.Request, m proto.Message) (tenant string, err error) {
	tenant, err = c.core.Callers.Enter(func() (string, error) {
		tenant, err := subject.TenantOf(r.Subject())
		if err != nil {
			err = errcode.Invalid([]errcode.Violation{{Field: "subject", Description: err.Error()}})
		}
		return tenant, err
	})
	if err != nil {
		return "", err
	}
	return tenant, natsreq.Unmarshal(m, nats.Header(r.Headers()), r.Data())
}

func (c *calls) getVideo(ctx context.Context, tenant string, m *genbusv1.GetVideoTaskRequest) (result, error) {
	e, err := c.core.Jobs.Get(ctx, subject.JobName{Kind: subject.Video, Tenant: tenant, ID: m.GetId()})
	if err != nil {
		return result{}, err
	}
	task, replacedBy := core.VideoOf(e), c.core.Jobs.ReplacedBy(ctx, e)
	return result{&genbusv1.GetVideoTaskResponse{Task: task, ReplacedBy: replacedBy}, func() []byte { return body.VideoTaskJSON(task, replacedBy) }, task}, nil
}

// getChat returns a chat with its reply. A stored reply that may not fit into a message is only
// referenced.
func (c *calls) getChat(ctx context.Context, tenant string, m *genbusv1.GetChatCompletionRequest) (result, error) {
	e, err := c.core.Jobs.Get(ctx, subject.JobName{Kind: subject.Chat, Tenant: tenant, ID: m.GetId()})
	if err != nil {
		return result{}, err
	}
	chat := core.ChatOf(e)
	var reply []byte
	if chat.GetReplyRef().GetSize() <= uint64(c.nc.MaxPayload())/2 {
		if reply, err = c.core.Chats.Reply(ctx, chat); err != nil {
			return result{}, err
		}
	}
	replacedBy := c.core.Jobs.ReplacedBy(ctx, e)
	completion, _ := body.ParseCompletion(reply) // nil without a reply, or if it is not a JSON object
	return result{
		&genbusv1.GetChatCompletionResponse{Chat: chat, Completion: completion, ReplacedBy: replacedBy},
		func() []byte { return body.ChatJSON(chat, reply, replacedBy) }, chat,
	}, nil
}

func (c *calls) cancelVideo(ctx context.Context, tenant string, m *genbusv1.CancelVideoTaskRequest) (result, error) {
	e, err := c.core.Jobs.Cancel(ctx, subject.JobName{Kind: subject.Video, Tenant: tenant, ID: m.GetId()})
	if err != nil {
		return result{}, err
	}
	task := core.VideoOf(e)
	return result{&genbusv1.CancelVideoTaskResponse{Task: task}, func() []byte { return body.VideoTaskJSON(task, nil) }, task}, nil
}

func (c *calls) cancelChat(ctx context.Context, tenant string, m *genbusv1.CancelChatCompletionRequest) (result, error) {
	e, err := c.core.Jobs.Cancel(ctx, subject.JobName{Kind: subject.Chat, Tenant: tenant, ID: m.GetId()})
	if err != nil {
		return result{}, err
	}
	chat := core.ChatOf(e)
	return result{&genbusv1.CancelChatCompletionResponse{Chat: chat}, func() []byte { return body.ChatJSON(chat, chat.GetReplyJson(), nil) }, chat}, nil
}

func (c *calls) listVideos(ctx context.Context, tenant string, m *genbusv1.ListVideoTasksRequest) (result, error) {
	return c.page(ctx, subject.Video, tenant, m, func(page jobindex.Page) result {
		out := core.VideoPage(page)
		return result{message: out, json: func() []byte { return body.VideoPageJSON(out.GetTasks(), out.GetNextPageToken()) }}
	})
}

func (c *calls) listChats(ctx context.Context, tenant string, m *genbusv1.ListChatCompletionsRequest) (result, error) {
	return c.page(ctx, subject.Chat, tenant, m, func(page jobindex.Page) result {
		out := core.ChatPage(page)
		return result{message: out, json: func() []byte { return body.ChatPageJSON(out.GetChats(), page.NextToken != "", page.NextToken) }}
	})
}

// page reads the page that a request selects. It reads a shorter one if the answer might not fit
// into a message. As JSON, jobs are less than four times as large.
func (c *calls) page(ctx context.Context, kind subject.Kind, tenant string, m core.ListRequest, answer func(jobindex.Page) result) (result, error) {
	q, err := core.ListQuery(kind, tenant, m)
	if err != nil {
		return result{}, err
	}
	for {
		page, err := c.core.Jobs.List(ctx, q)
		if err != nil {
			return result{}, err
		}
		out := answer(page)
		if int64(proto.Size(out.message)) <= c.nc.MaxPayload()/4 || len(page.Jobs) <= 1 {
			return out, nil
		}
		q.Size = len(page.Jobs) / 2
	}
}

func (c *calls) listModels(ctx context.Context, _ string, m *genbusv1.ListModelsRequest) (result, error) {
	models, err := c.core.Models.List(ctx, m.GetKind())
	if err != nil {
		return result{}, err
	}
	return result{message: &genbusv1.ListModelsResponse{Models: models}, json: func() []byte { return body.ModelListJSON(core.EachOnce(models)) }}, nil
}
