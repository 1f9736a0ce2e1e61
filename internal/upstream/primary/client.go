// Package primary is the client of the primary video protocol,
// /v1/video/generations. It is not a poller: it makes one call at a time and
// says what the answer means.
package primary

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"

	"github.com/genbus/genbus/internal/upstream"
)

// Options tunes a Client. The zero value is ready to use.
type Options struct {
	// Path is the create path; a task is read from Path + "/" + id. Default
	// "/v1/video/generations".
	Path string
}

// Client speaks the protocol to one upstream. It is safe for concurrent use.
type Client struct {
	ep   *upstream.Endpoint
	path string
	// buffers keeps poll answers' memory (*[]byte); polls come by the thousand
	// per second.
	buffers sync.Pool
}

var _ upstream.VideoClient = (*Client)(nil)

// New gives a client for ep, which must have passed Validate.
func New(ep *upstream.Endpoint, opts Options) *Client {
	return &Client{
		ep:      ep,
		path:    cmp.Or(opts.Path, "/v1/video/generations"),
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// Create submits once, with the job's id as Idempotency-Key. Any 2xx with a
// task id is Accepted; the table in outcome.go decides everything else.
func (c *Client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	return c.ep.Submit(ctx, create, upstream.SubmitCall{Path: c.path, Body: create.Body, Outcomes: outcomes, Read: c.accepted})
}

// accepted reads a 2xx answer to a create.
func (c *Client) accepted(resp *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
	a, err := decode(body)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, body, err)
	}
	sub := upstream.Submission{UpstreamID: cmp.Or(a.taskID(), a.pollingID(resp.Request.URL))}
	sub.State, _ = a.state(resp)
	return sub, nil
}

// Poll reads the state of a task. Only a readable 2xx answer says anything
// about the task. Every other one is an error and never a failed task, also
// 400 task_not_exist: servers answer a create before they store the task, so a
// poller goes on and lets the task's deadline decide.
func (c *Client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	if ref.ID == "" {
		return upstream.VideoState{}, upstream.NotSent(upstream.OpPoll, errors.New("the task id is empty"))
	}
	buf := c.buffers.Get().(*[]byte)
	resp, body, err := c.ep.Call(ctx, upstream.OpPoll, http.MethodGet, c.path+"/"+url.PathEscape(ref.ID), nil, (*buf)[:0])
	defer c.release(buf, body)
	if err != nil {
		return upstream.VideoState{}, err
	}
	return c.read(resp, body)
}

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
