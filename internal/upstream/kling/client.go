// Package kling is vendor A's own video protocol, /v1/videos/text2video and
// /v1/videos/image2video, on both sides: the client of the vendor, or of a
// gateway before it, and the surface that serves the vendor's own clients. It is
// not a poller and it keeps no tasks.
//
// The vendor answers {"code":0,"data":{task}} with code as an integer. A gateway
// answers a create with a bare task of its own and a poll with {"code":"success",
// "data":{task}}, code as a string, in which "data" is the vendor's whole answer.
package kling

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// client speaks the protocol with one key of one upstream. It is safe for
// concurrent use.
type client struct {
	ep      *upstream.Endpoint
	gateway bool
	// signer is nil where the key is a bearer key.
	signer *signer
}

func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	s, _ := ep.Auth.(*signer)
	return &client{ep: ep, gateway: opts.Gateway, signer: s}
}

// Create submits once, with the job's id as Idempotency-Key. There is one
// exception: when the vendor refuses a token as stale it has looked at nothing
// else, and so the same request goes out once more with a new token.
func (c *client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	kind := kindOf(create.Body)
	sent := withOwnTaskID(create)
	err := sent.Err()
	if err == nil && c.gateway {
		sent, err = forGateway(sent)
	}
	if err != nil {
		return upstream.Submission{Verdict: upstream.RefusedForGood, Err: upstream.NotSent(upstream.OpCreate, err)}
	}
	call := upstream.SubmitCall{Path: videosPath + kind, Body: sent.Bytes(), Outcomes: outcomes, Read: c.accepted(kind)}
	sub := c.ep.Submit(ctx, create, call)
	if c.forget(sub.Err) {
		sub = c.ep.Submit(ctx, create, call)
	}
	return passedOn(sub, create.Resubmission)
}

// kindOf tells what a create body asks for, and so its path.
func kindOf(d body.Document) string {
	if d.Text("image") != "" || d.Text("image_tail") != "" {
		return imageToVideo
	}
	return textToVideo
}

// forget drops the token when the vendor says that it is stale, and reports
// whether it did.
func (c *client) forget(e *upstream.Error) bool {
	if c.signer == nil || !staleToken(e) {
		return false
	}
	c.signer.forget()
	return true
}

// accepted reads a 2xx answer to a create.
func (c *client) accepted(kind string) func(*http.Response, []byte) (upstream.Submission, *upstream.Error) {
	return func(resp *http.Response, answered []byte) (upstream.Submission, *upstream.Error) {
		a, err := lax.Decode[answer](answered)
		if err != nil {
			return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, answered, err)
		}
		if a.Code.form() == refusal {
			return upstream.Submission{}, c.refused(a, resp, answered)
		}
		sub := upstream.Submission{UpstreamID: a.taskID(), Ticket: kind}
		sub.State, _ = a.state(resp)
		return sub, nil
	}
}

// refused describes a 2xx answer whose code is that of an error.
func (c *client) refused(a *answer, resp *http.Response, answered []byte) *upstream.Error {
	e, _ := c.ep.ResponseError(upstream.OpCreate, resp, answered)
	// Who refuses and names a task says two things, and neither can be relied on.
	e.Said = e.Said && a.Data.Value.TaskID == ""
	return e
}

// Poll reads the state of a task, below the path that created it.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	state, err := c.ep.Poll(ctx, ref, upstream.PollCall{Path: taskPath(ref), Read: stateOf})
	// The next poll has a new token then; this one is not worth a second call.
	c.forget(upstream.AsError(upstream.OpPoll, err))
	return state, err
}

// taskPath is where a task is read.
func taskPath(ref upstream.TaskRef) string {
	kind := textToVideo
	if ref.Ticket == imageToVideo {
		kind = imageToVideo
	}
	return videosPath + kind + "/" + url.PathEscape(ref.ID)
}

// stateOf turns a 2xx answer to a poll into a state.
func stateOf(resp *http.Response, answered []byte) (upstream.VideoState, bool, error) {
	a, err := lax.Decode[answer](answered)
	if err != nil {
		return upstream.VideoState{}, false, err
	}
	state, ok := a.state(resp)
	return state, ok, nil
}

// withOwnTaskID gives the body with an ID of ours as external_task_id, and never with the client's,
// which is the job's request id: the vendor wants it unique in its account, which several tenants
// share. The vendor refuses a second create of one ID, and finds its task.
func withOwnTaskID(create upstream.VideoCreate) body.Document {
	return create.Body.WithText(externalMember, cmp.Or(create.OwnID, create.JobID))
}
