// Package videos is the compatible Videos API, /v1/videos, as OpenAI published it
// and gateways serve it: the client of upstreams that speak it, its create
// bodies, and the forms in which clients send them. It is not a poller and it
// does not read the content of a video: it makes one call at a time and says what
// the answer means. It is no server: internal/api/httpapi has the paths.
package videos

import (
	"context"
	"net/http"
	"net/url"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// createPath is where tasks are created; a task is read from createPath + "/" +
// id.
const createPath = "/v1/videos"

// client speaks the protocol with one key of one upstream. It is safe for
// concurrent use.
type client struct {
	ep   *upstream.Endpoint
	opts upstream.Options
}

var (
	_ upstream.VideoClient   = (*client)(nil)
	_ upstream.ContentPather = (*client)(nil)
)

// newClient gives a client for ep, which must have passed Validate. Of opts it
// reads InputReference, and Gateway: seconds is then sent as a string, as new-api
// wants it. The zero Options send JSON as the client wrote it.
func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	return &client{ep: ep, opts: opts}
}

// Create submits once, with the job's id as Idempotency-Key: as a form when
// input_reference is a data: URL, else as JSON. Any 2xx with an id is Accepted;
// the table in outcome.go decides everything else.
func (c *client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	body, contentType, err := c.request(create)
	if err != nil {
		return upstream.Submission{Verdict: upstream.RefusedForGood, Err: upstream.NotSent(upstream.OpCreate, err)}
	}
	return c.ep.Submit(ctx, create, upstream.SubmitCall{
		Path: createPath, Body: body, ContentType: contentType, Outcomes: outcomes, Read: c.accepted,
	})
}

// accepted reads a 2xx answer to a create.
func (c *client) accepted(resp *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
	a, err := lax.Decode[answer](body)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, body, err)
	}
	sub := upstream.Submission{UpstreamID: a.taskID()}
	sub.State, _ = a.state(resp)
	return sub, nil
}

// Poll reads the state of a task. 400 task_not_exist and 404 are errors like all
// others: servers answer a create before they store the task.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	return c.ep.Poll(ctx, ref, upstream.PollCall{Path: taskPath(ref), Read: stateOf})
}

// ContentPath is where the bytes of a completed video are read, with the
// upstream key, whether or not the task names a URL.
func (c *client) ContentPath(ref upstream.TaskRef) string { return taskPath(ref) + "/content" }

func taskPath(ref upstream.TaskRef) string { return createPath + "/" + url.PathEscape(ref.ID) }

// stateOf turns a 2xx answer to a poll into a state.
func stateOf(resp *http.Response, body []byte) (upstream.VideoState, bool, error) {
	a, err := lax.Decode[answer](body)
	if err != nil {
		return upstream.VideoState{}, false, err
	}
	state, ok := a.state(resp)
	return state, ok, nil
}
