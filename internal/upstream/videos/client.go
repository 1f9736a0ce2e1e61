// Package videos is the client of the compatible Videos API, /v1/videos, as
// OpenAI published it and gateways serve it. It is not a poller and it does not
// read the content of a video: it makes one call at a time and says what the
// answer means.
package videos

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/genbus/genbus/internal/upstream"
)

// createPath is where tasks are created; a task is read from createPath + "/" +
// id.
const createPath = "/v1/videos"

// Client speaks the protocol to one account of one upstream. It is safe for
// concurrent use.
type Client struct {
	ep   *upstream.Endpoint
	opts upstream.Options
	// buffers keeps poll answers' memory (*[]byte); polls come by the thousand
	// per second.
	buffers sync.Pool
}

var (
	_ upstream.VideoClient   = (*Client)(nil)
	_ upstream.ContentPather = (*Client)(nil)
)

// New gives a client for ep, which must have passed Validate. Of opts it reads
// InputReference, and Gateway: seconds is then sent as a string, as new-api
// wants it. The zero Options send JSON as the client wrote it.
func New(ep *upstream.Endpoint, opts upstream.Options) *Client {
	return &Client{ep: ep, opts: opts, buffers: sync.Pool{New: func() any { return new([]byte) }}}
}

// Create submits once, with the job's id as Idempotency-Key: as a form when
// input_reference is a data: URL, else as JSON. Any 2xx with an id is Accepted;
// the table in outcome.go decides everything else.
func (c *Client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	body, contentType, err := c.request(create)
	if err != nil {
		return upstream.Submission{Verdict: upstream.RefusedForGood, Err: upstream.NotSent(upstream.OpCreate, err)}
	}
	return c.ep.Submit(ctx, create, upstream.SubmitCall{
		Path: createPath, Body: body, ContentType: contentType, Outcomes: outcomes, Read: c.accepted,
	})
}

// accepted reads a 2xx answer to a create.
func (c *Client) accepted(resp *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
	a, err := decode(body)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, body, err)
	}
	sub := upstream.Submission{UpstreamID: a.taskID()}
	sub.State, _ = a.state(resp)
	return sub, nil
}

// Poll reads the state of a task. Only a readable 2xx answer says anything
// about the task. Every other one is an error and never a failed task, also
// 400 task_not_exist and 404: servers answer a create before they store the
// task, so a poller goes on and lets the task's deadline decide.
func (c *Client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	if ref.ID == "" {
		return upstream.VideoState{}, upstream.NotSent(upstream.OpPoll, errors.New("the task id is empty"))
	}
	buf := c.buffers.Get().(*[]byte)
	resp, body, err := c.ep.Call(ctx, upstream.OpPoll, http.MethodGet, taskPath(ref), nil, (*buf)[:0])
	defer c.release(buf, body)
	if err != nil {
		return upstream.VideoState{}, err
	}
	return c.read(resp, body)
}

// ContentPath is where the bytes of a completed video are read, with the
// account's key, whether or not the task names a URL.
func (c *Client) ContentPath(ref upstream.TaskRef) string { return taskPath(ref) + "/content" }

func taskPath(ref upstream.TaskRef) string { return createPath + "/" + url.PathEscape(ref.ID) }

// read turns the answer to a poll into a state. Nothing in the state points
// into the pooled buffer.
func (c *Client) read(resp *http.Response, body []byte) (upstream.VideoState, error) {
	a, err := decode(body)
	if err == nil {
		if state, ok := a.state(resp); ok {
			return state, nil
		}
	}
	return upstream.VideoState{}, c.ep.Useless(upstream.OpPoll, "the answer says nothing about the task", resp, body, err)
}

func (c *Client) release(buf *[]byte, body []byte) {
	const keep = 256 << 10 // larger answers are rare; do not hoard them
	if cap(body) <= keep {
		*buf = body[:0]
		c.buffers.Put(buf)
	}
}
