// Package videos implements the Videos API, /v1/videos, as published by OpenAI and served by
// compatible gateways: the client, the create bodies, and the forms in which clients send them. The
// client makes one call at a time; polling and reading content are up to the caller.
// internal/api/httpapi serves the paths.
package videos

import (
	"context"
	"net/http"
	"net/url"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// createPath is the path for creating tasks. A task is read from createPath + "/" + its ID.
const createPath = "/v1/videos"

// client speaks the protocol with one upstream key. It is safe for concurrent use.
type client struct {
	ep   *upstream.Endpoint
	opts upstream.Options
}

var (
	_ upstream.VideoClient   = (*client)(nil)
	_ upstream.ContentPather = (*client)(nil)
)

// newClient returns a client for ep. With opts.Gateway it sends seconds as a string, as new-api
// expects. The zero Options send JSON as the client wrote it.
func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	return &client{ep: ep, opts: opts}
}

// Create submits once, with the job's ID as Idempotency-Key, as a form or as JSON (see
// upstream.Options.Body). Any 2xx with an ID is Accepted; the table in outcome.go judges everything
// else.
func (c *client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	body, contentType, err := c.request(create)
	if err != nil {
		return upstream.Submission{Verdict: upstream.RefusedForGood, Err: upstream.NotSent(upstream.OpCreate, err)}
	}
	return c.ep.Submit(ctx, create, upstream.SubmitCall{
		Path: createPath, Body: body, ContentType: contentType, Outcomes: outcomes, Read: c.accepted,
	})
}

func (c *client) accepted(resp *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
	a, err := lax.Decode[answer](body)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, body, err)
	}
	sub := upstream.Submission{UpstreamID: a.taskID()}
	sub.State, _ = a.state(resp)
	return sub, nil
}

// Poll reads the state of a task, see upstream.Endpoint.Poll.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	return c.ep.Poll(ctx, ref, upstream.PollCall{
		Path: taskPath(ref), ContentByID: true,
		Read: func(resp *http.Response, body []byte) (upstream.VideoState, bool, error) {
			a, err := lax.Decode[answer](body)
			if err != nil {
				return upstream.VideoState{}, false, err
			}
			state, ok := a.state(resp)
			state.Named = a.names(ref.ID)
			return state, ok, nil
		},
	})
}

// ContentPath returns the path for reading a completed video with the upstream key, whether or not
// the task has a URL.
func (c *client) ContentPath(ref upstream.TaskRef) string { return taskPath(ref) + "/content" }

func taskPath(ref upstream.TaskRef) string { return createPath + "/" + url.PathEscape(ref.ID) }
