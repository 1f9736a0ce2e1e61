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

// The call names in errors.
const (
	opCreate = "create"
	opPoll   = "poll"
)

// maxID bounds a task id, in bytes; a longer one is no id.
const maxID = 1 << 10

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
	if len(create.Body) == 0 {
		return refused(upstream.RefusedForGood, upstream.NotSent(opCreate, errNoBody))
	}
	req, err := c.ep.NewRequest(ctx, http.MethodPost, c.path, create.Body)
	if err != nil {
		return refused(upstream.RefusedForGood, upstream.NotSent(opCreate, err))
	}
	req.Header.Set("Accept", "application/json")
	if create.JobID != "" {
		req.Header.Set("Idempotency-Key", create.JobID)
	}
	resp, err := c.ep.Do(opCreate, req)
	if err != nil {
		e := upstream.AsError(opCreate, err)
		return refused(unanswered(e), e)
	}
	body, err := c.ep.AppendBody(opCreate, resp, nil)
	if err != nil {
		e := upstream.AsError(opCreate, err)
		return refused(outcome(e, create.Resubmission), e)
	}
	if resp.StatusCode/100 == 2 {
		return c.accepted(resp, body)
	}
	e, _ := c.ep.ResponseError(opCreate, resp, body)
	return refused(outcome(e, create.Resubmission), e)
}

var errNoBody = errors.New("the request body is empty")

// accepted reads a 2xx answer to a create.
func (c *Client) accepted(resp *http.Response, body []byte) upstream.Submission {
	a, err := decode(body)
	id := a.taskID()
	if err != nil || id == "" || len(id) > maxID {
		return refused(upstream.Unknown, c.useless(opCreate, "the upstream answered without a task id", resp, body, err))
	}
	sub := upstream.Submission{Verdict: upstream.Accepted, UpstreamID: id}
	sub.State, _ = a.state(resp)
	return sub
}

func refused(v upstream.Verdict, e *upstream.Error) upstream.Submission {
	e.Final = v == upstream.RefusedForGood
	return upstream.Submission{Verdict: v, Err: e}
}

// Poll reads the state of a task. Only a readable 2xx answer says anything
// about the task. Every other one is an error and never a failed task, also
// 400 task_not_exist: servers answer a create before they store the task, so a
// poller goes on and lets the task's deadline decide.
func (c *Client) Poll(ctx context.Context, upstreamID string) (upstream.VideoState, error) {
	if upstreamID == "" {
		return upstream.VideoState{}, upstream.NotSent(opPoll, errors.New("the task id is empty"))
	}
	req, err := c.ep.NewRequest(ctx, http.MethodGet, c.path+"/"+url.PathEscape(upstreamID), nil)
	if err != nil {
		return upstream.VideoState{}, upstream.NotSent(opPoll, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.ep.Do(opPoll, req)
	if err != nil {
		return upstream.VideoState{}, err
	}
	return c.read(resp)
}

// read turns the answer to a poll into a state. Nothing in the state points
// into the pooled buffer.
func (c *Client) read(resp *http.Response) (upstream.VideoState, error) {
	buf := c.buffers.Get().(*[]byte)
	body, err := c.ep.AppendBody(opPoll, resp, (*buf)[:0])
	defer c.release(buf, body)
	if err != nil {
		return upstream.VideoState{}, err
	}
	if resp.StatusCode/100 != 2 {
		e, _ := c.ep.ResponseError(opPoll, resp, body)
		return upstream.VideoState{}, e
	}
	a, err := decode(body)
	if err == nil {
		if state, ok := a.state(resp); ok {
			return state, nil
		}
	}
	return upstream.VideoState{}, c.useless(opPoll, "the answer says nothing about the task", resp, body, err)
}

func (c *Client) release(buf *[]byte, body []byte) {
	const keep = 256 << 10 // larger answers are rare; do not hoard them
	if cap(body) <= keep {
		*buf = body[:0]
		c.buffers.Put(buf)
	}
}

// useless describes a 2xx answer that does not say what it should.
func (c *Client) useless(op, what string, resp *http.Response, body []byte, cause error) *upstream.Error {
	e, _ := c.ep.ResponseError(op, resp, body)
	e.Code = string(meaningful(word(e.Code)))
	e.Message = upstream.CutMessage(what + ": " + e.Message)
	e.Err = cause
	return e
}
