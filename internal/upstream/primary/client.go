// Package primary implements the client for the primary video protocol, /v1/video/generations, and
// its create bodies. The client makes single calls; the caller decides when to poll.
// internal/api/httpapi serves the paths.
package primary

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// createPath is the path for creating tasks. A task is read from createPath + "/" + its ID.
const createPath = "/v1/video/generations"

// client speaks the protocol with one upstream key. It is safe for concurrent use.
type client struct{ ep *upstream.Endpoint }

// Create submits once, with the job's ID as Idempotency-Key. Any 2xx with a task ID is Accepted;
// the table in outcome.go judges everything else.
func (c *client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	return c.ep.Submit(ctx, create, upstream.SubmitCall{Path: createPath, Body: create.Body.Bytes(), Outcomes: outcomes, Read: c.accepted})
}

func (c *client) accepted(resp *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
	a, err := lax.Decode[answer](body)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, body, err)
	}
	sub := upstream.Submission{UpstreamID: cmp.Or(a.taskID(), a.pollingID(resp.Request.URL))}
	sub.State, _ = a.state(resp)
	return sub, nil
}

// Poll reads the state of a task, see upstream.Endpoint.Poll.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	return c.ep.Poll(ctx, ref, upstream.PollCall{
		Path: createPath + "/" + url.PathEscape(ref.ID),
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
