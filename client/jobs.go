package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// ListVideos yields the client's videos that r selects, newest first, and requests further pages as
// needed. A nil r selects all. The error of a page is yielded last. Errors are *Error:
// ErrInvalidRequest, ErrInvalidPageToken, ErrIndexCatchingUp and those of all calls.
func (c *Client) ListVideos(ctx context.Context, r *genbusv1.ListVideoTasksRequest) iter.Seq2[*genbusv1.VideoTask, error] {
	r = proto.CloneOf(r)
	if r == nil {
		r = &genbusv1.ListVideoTasksRequest{}
	}
	return list(func() ([]*genbusv1.VideoTask, bool, error) {
		page := &genbusv1.ListVideoTasksResponse{}
		err := c.ask(ctx, c.names.List(subject.Video, c.tenant), r, page)
		r.PageToken = page.GetNextPageToken()
		return page.GetTasks(), r.GetPageToken() != "", err
	})
}

// ListChats yields the client's queued chats that r selects, without their replies, like ListVideos.
func (c *Client) ListChats(ctx context.Context, r *genbusv1.ListChatCompletionsRequest) iter.Seq2[*genbusv1.Chat, error] {
	r = proto.CloneOf(r)
	if r == nil {
		r = &genbusv1.ListChatCompletionsRequest{}
	}
	return list(func() ([]*genbusv1.Chat, bool, error) {
		page := &genbusv1.ListChatCompletionsResponse{}
		err := c.ask(ctx, c.names.List(subject.Chat, c.tenant), r, page)
		r.PageToken = page.GetNextPageToken()
		return page.GetChats(), r.GetPageToken() != "", err
	})
}

// list yields the jobs of all pages.
func list[Job any](next func() (page []Job, more bool, err error)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for {
			page, more, err := next()
			if err != nil {
				var none Job
				yield(none, err)
				return
			}
			for _, job := range page {
				if !yield(job, nil) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// CancelVideo cancels a video that has not ended, and returns its state. The upstream may still
// charge for a task that it has begun. An ended video is returned unchanged. Errors are *Error:
// ErrTaskNotFound and those of all calls. CancelVideo may be repeated.
func (c *Client) CancelVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error) {
	answer := &genbusv1.CancelVideoTaskResponse{}
	err := c.ask(ctx, c.names.Cancel(subject.Video, c.tenant), &genbusv1.CancelVideoTaskRequest{Id: id}, answer)
	return answer.GetTask(), err
}

// CancelChat cancels a queued chat, like CancelVideo, with ErrChatNotFound.
func (c *Client) CancelChat(ctx context.Context, id string) (*genbusv1.Chat, error) {
	answer := &genbusv1.CancelChatCompletionResponse{}
	err := c.ask(ctx, c.names.Cancel(subject.Chat, c.tenant), &genbusv1.CancelChatCompletionRequest{Id: id}, answer)
	return answer.GetChat(), err
}

// Models returns the models that genbus serves.
func (c *Client) Models(ctx context.Context) ([]*genbusv1.Model, error) {
	answer := &genbusv1.ListModelsResponse{}
	err := c.ask(ctx, c.names.Models(c.tenant), &genbusv1.ListModelsRequest{}, answer)
	return answer.GetModels(), err
}

// ask sends a request that may be repeated, and decodes the reply. It repeats requests without an
// answer, and those that another replica may answer, until ctx ends or Options.Wait has passed.
func (c *Client) ask(ctx context.Context, subj string, r, answer proto.Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.wait, fmt.Errorf("no answer within %s", c.wait))
	defer cancel()
	m, err := c.question(ctx, subj, r)
	if err != nil {
		return err
	}
	for wait := firstPause; ; wait = min(2*wait, maxPause) {
		reply, err := c.answer(ctx, m)
		if err == nil {
			return decode(reply, answer)
		}
		if refused, ok := errors.AsType[*Error](err); ok && !again(refused) {
			return refused
		}
		if final(err) {
			return noAnswer(err, lost(c.nc))
		}
		if stopped := pause(ctx, wait); stopped != nil {
			return noAnswer(fmt.Errorf("%w: %w", stopped, err), lost(c.nc))
		}
	}
}

// question builds the message of a request that may be repeated.
func (c *Client) question(ctx context.Context, subj string, r proto.Message) (*nats.Msg, error) {
	m := nats.NewMsg(subj)
	c.header(ctx, m.Header)
	var err error
	if m.Data, err = proto.Marshal(r); err != nil {
		return nil, &Error{Code: ErrInvalidRequest, Message: "encode the request: " + err.Error(), Err: err}
	}
	return m, nil
}

// answer returns the reply to one attempt. A refusal is an *Error.
func (c *Client) answer(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	reply, err := c.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, err
	}
	if e := refusal(reply); e != nil {
		return nil, e
	}
	return reply, nil
}

func decode(reply *nats.Msg, answer proto.Message) error {
	if err := proto.Unmarshal(reply.Data, answer); err != nil {
		return &Error{Code: ErrInternal, Message: "the answer cannot be read: " + err.Error(), Err: err}
	}
	return nil
}

func noAnswer(err error, why string) *Error {
	return &Error{Code: ErrBrokerUnavailable, Retry: true, Err: err, Message: fmt.Sprintf("genbus does not answer (%v%s)", err, why)}
}
