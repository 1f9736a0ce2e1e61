package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// ListVideos yields the videos that r selects, newest first, or all if r is nil. It requests more
// pages as needed, and stops after the first error. An error of genbus is an *Error, such as
// ErrInvalidRequest, ErrInvalidPageToken, ErrIndexCatchingUp or ErrBrokerUnavailable.
func (c *Client) ListVideos(ctx context.Context, r *genbusv1.ListVideoTasksRequest) iter.Seq2[*genbusv1.VideoTask, error] {
	return list(r.GetPageToken(), func(token string) ([]*genbusv1.VideoTask, string, error) {
		m, page := &genbusv1.ListVideoTasksRequest{}, &genbusv1.ListVideoTasksResponse{}
		proto.Merge(m, r)
		m.PageToken = token
		err := c.ask(ctx, c.names.List(subject.Video, c.tenant), m, page)
		return page.GetTasks(), page.GetNextPageToken(), err
	})
}

// ListChats is like ListVideos for queued chats. It yields them without their replies.
func (c *Client) ListChats(ctx context.Context, r *genbusv1.ListChatCompletionsRequest) iter.Seq2[*genbusv1.Chat, error] {
	return list(r.GetPageToken(), func(token string) ([]*genbusv1.Chat, string, error) {
		m, page := &genbusv1.ListChatCompletionsRequest{}, &genbusv1.ListChatCompletionsResponse{}
		proto.Merge(m, r)
		m.PageToken = token
		err := c.ask(ctx, c.names.List(subject.Chat, c.tenant), m, page)
		return page.GetChats(), page.GetNextPageToken(), err
	})
}

// list yields the jobs of all pages, starting with the page of a token.
func list[Job any](first string, read func(token string) (page []Job, next string, err error)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for token := first; ; {
			page, next, err := read(token)
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
			if token = next; token == "" {
				return
			}
		}
	}
}

// CancelVideo cancels a video and returns its state. The upstream may still charge for a task that it
// has begun. A video that has ended stays unchanged, so CancelVideo may be repeated. An error of
// genbus is an *Error, such as ErrTaskNotFound or ErrBrokerUnavailable.
func (c *Client) CancelVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error) {
	answer := &genbusv1.CancelVideoTaskResponse{}
	err := c.ask(ctx, c.names.Cancel(subject.Video, c.tenant), &genbusv1.CancelVideoTaskRequest{Id: id}, answer)
	return answer.GetTask(), err
}

// CancelChat cancels a queued chat, like CancelVideo. If the chat does not exist, the error is
// ErrChatNotFound.
func (c *Client) CancelChat(ctx context.Context, id string) (*genbusv1.Chat, error) {
	answer := &genbusv1.CancelChatCompletionResponse{}
	err := c.ask(ctx, c.names.Cancel(subject.Chat, c.tenant), &genbusv1.CancelChatCompletionRequest{Id: id}, answer)
	return answer.GetChat(), err
}

// ReplacedBy returns the IDs of the jobs that repeat an ended job because their retry_of names it:
// the newest 100, oldest first. The list is also empty while genbus cannot tell. An error of genbus
// is an *Error, such as ErrTaskNotFound, ErrChatNotFound or ErrBrokerUnavailable.
func (c *Client) ReplacedBy(ctx context.Context, id string) ([]string, error) {
	switch kind, _ := subject.KindOf(id); kind {
	case subject.Video:
		answer := &genbusv1.GetVideoTaskResponse{}
		err := c.ask(ctx, c.names.Get(kind, c.tenant), &genbusv1.GetVideoTaskRequest{Id: id}, answer)
		return answer.GetReplacedBy(), err
	case subject.Chat:
		answer := &genbusv1.GetChatCompletionResponse{}
		err := c.ask(ctx, c.names.Get(kind, c.tenant), &genbusv1.GetChatCompletionRequest{Id: id}, answer)
		return answer.GetReplacedBy(), err
	}
	return nil, notFound(Video, id)
}

// Models returns the models that r selects, or all if r is nil.
func (c *Client) Models(ctx context.Context, r *genbusv1.ListModelsRequest) ([]*genbusv1.Model, error) {
	answer := &genbusv1.ListModelsResponse{}
	err := c.ask(ctx, c.names.Models(c.tenant), r, answer)
	return answer.GetModels(), err
}

// ask sends a request that may be repeated, and decodes the reply. If genbus does not answer or
// refuses the request for now, it sends the request again, until ctx ends or Options.Wait has passed.
func (c *Client) ask(ctx context.Context, subj string, r, answer proto.Message) error {
	m, err := c.question(ctx, subj, r)
	if err != nil {
		return err
	}
	for t := c.newTrying(); ; {
		reply, err := c.answer(ctx, m, min(attemptWait, c.wait-time.Since(t.since)))
		if err == nil {
			return decode(reply, answer)
		}
		if end := t.again(ctx, err); end != nil {
			return end
		}
	}
}

// trying is a request that is repeated.
type trying struct {
	c     *Client
	since time.Time
	wait  time.Duration
	last  error // of the attempt before
}

func (c *Client) newTrying() *trying { return &trying{c: c, since: time.Now(), wait: firstPause} }

// again waits before the next attempt. It returns the final error if there is none: that of ctx, a
// refusal that will not change, or the last one if Options.Wait has passed.
func (t *trying) again(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	refused, ok := errors.AsType[*Error](err)
	if ok && !refused.Retry {
		return refused
	}
	wait := t.wait
	if ok {
		wait = max(wait, refused.RetryAfter)
	}
	before := t.last
	t.last = err
	if errors.Is(err, context.DeadlineExceeded) && before != nil {
		err = fmt.Errorf("%w, and before: %w", err, before) // the attempt before says more
	}
	switch {
	case final(err), time.Since(t.since)+wait > t.c.wait && !ok:
		return &Error{Code: ErrBrokerUnavailable, Retry: true, Err: err, Message: fmt.Sprintf("genbus does not answer (%v%s)", err, lost(t.c.nc))}
	case time.Since(t.since)+wait > t.c.wait:
		return refused
	}
	if stopped := pause(ctx, wait); stopped != nil {
		return fmt.Errorf("%w: %w", stopped, err)
	}
	t.wait = min(2*t.wait, maxPause)
	return nil
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
func (c *Client) answer(ctx context.Context, m *nats.Msg, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
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
