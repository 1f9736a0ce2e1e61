package load

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject/brief"
	"github.com/genbus/genbus/test/faultinject/check"
)

// reconnect makes clients reconnect quickly to a restarted replica.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 2 * time.Second,
}

func (l *Load) videos(at int) genbusv1grpc.VideoServiceClient {
	return genbusv1grpc.NewVideoServiceClient(l.grpc[at])
}

func (l *Load) chats(at int) genbusv1grpc.ChatServiceClient {
	return genbusv1grpc.NewChatServiceClient(l.grpc[at])
}

func (c *client) rpc(ctx context.Context, at int, w wish, expires time.Time, a *answer) {
	if w.kind == subject.Video {
		request, err := w.videoRequest(expires)
		var r *genbusv1.CreateVideoTaskResponse
		if err == nil {
			r, err = c.videos(at).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: request})
		}
		a.answered(err, func() { a.decoded(nil, r.GetTask()) })
		return
	}
	request, err := w.chatRequest(expires)
	switch {
	case err != nil:
		a.lost(err)
	case w.entry.form == wholeRPC:
		c.complete(ctx, at, request, a)
	case w.entry.form == stream:
		c.streamed(ctx, at, request, a)
	default:
		r, err := c.chats(at).SubmitChatCompletion(ctx, &genbusv1.SubmitChatCompletionRequest{Request: request})
		a.answered(err, func() { a.decoded(nil, r.GetChat()) })
	}
}

func (c *client) complete(ctx context.Context, at int, request *genbusv1.ChatRequest, a *answer) {
	r, err := c.chats(at).CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: request})
	a.answered(err, func() {
		a.Job = r.GetChatId()
		a.Text, a.Whole = check.ReplyText(r.GetRawJson())
	})
}

func (c *client) streamed(ctx context.Context, at int, request *genbusv1.ChatRequest, a *answer) {
	s, err := c.chats(at).StreamChatCompletion(ctx, &genbusv1.StreamChatCompletionRequest{Request: request})
	var text strings.Builder
	for err == nil {
		var r *genbusv1.StreamChatCompletionResponse
		if r, err = s.Recv(); err == nil {
			a.begins()
			a.Job = r.GetChatId()
			text.WriteString(check.BlockText(r.GetRawJson()))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	a.answered(err, func() { a.Text, a.Whole = brief.Of(text.String()), true })
}

// answered records the error of a call, or calls read if the call succeeded.
func (a *answer) answered(err error, read func()) {
	if err == nil {
		read()
		return
	}
	for _, detail := range status.Convert(err).Details() {
		switch d := detail.(type) {
		case *errdetails.ErrorInfo:
			a.Code, a.Job = d.GetReason(), firstOf(a.Job, d.GetMetadata()["job_id"])
		case *errdetails.RetryInfo:
			a.retryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	if a.Code == "" {
		a.lost(err)
		a.NotSent = strings.Contains(err.Error(), "while dialing")
	}
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (c *client) getRPC(ctx context.Context, at int, job string, a *answer) {
	if kindOf(job) == subject.Chat {
		r, err := c.chats(at).GetChatCompletion(ctx, &genbusv1.GetChatCompletionRequest{Id: job})
		a.answered(err, func() { a.decoded(nil, r.GetChat()) })
		return
	}
	r, err := c.videos(at).GetVideoTask(ctx, &genbusv1.GetVideoTaskRequest{Id: job})
	a.answered(err, func() { a.decoded(nil, r.GetTask()) })
}

func (c *client) cancelRPC(ctx context.Context, at int, job string, a *answer) {
	if kindOf(job) == subject.Chat {
		r, err := c.chats(at).CancelChatCompletion(ctx, &genbusv1.CancelChatCompletionRequest{Id: job})
		a.answered(err, func() { a.decoded(nil, r.GetChat()) })
		return
	}
	r, err := c.videos(at).CancelVideoTask(ctx, &genbusv1.CancelVideoTaskRequest{Id: job})
	a.answered(err, func() { a.decoded(nil, r.GetTask()) })
}

func kindOf(job string) subject.Kind {
	if strings.HasPrefix(job, "chat_") {
		return subject.Chat
	}
	return subject.Video
}
