// Package kling implements the video protocol of Kling (vendor A), /v1/videos/text2video and
// /v1/videos/image2video: the client for the vendor or a gateway, and the surface for the vendor's
// own clients. The client makes single calls; the caller decides when to poll.
//
// The vendor answers {"code":0,"data":{task}}, with an integer code. A gateway answers a create
// with a bare task in its own format. It answers a poll with {"code":"success","data":{task}}, with
// a string code. The "data" of that task holds the vendor's whole answer.
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

// client speaks the protocol with one upstream key. It is safe for concurrent use.
type client struct {
	ep      *upstream.Endpoint
	gateway bool
	// signer is nil for a bearer key.
	signer *signer
}

func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	s, _ := ep.Auth.(*signer)
	return &client{ep: ep, gateway: opts.Gateway, signer: s}
}

// Create submits once, with the job's ID as Idempotency-Key. But if the vendor refuses the token as
// stale, it has not looked at the request, so Create sends the request again with a new token.
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
	if c.dropToken(sub.Err) {
		sub = c.ep.Submit(ctx, create, call)
	}
	return sub
}

// dropToken drops the token if the vendor reported it as stale, and reports whether it did.
func (c *client) dropToken(e *upstream.Error) bool {
	if c.signer == nil || !staleToken(e) {
		return false
	}
	c.signer.dropToken()
	return true
}

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

func (c *client) refused(a *answer, resp *http.Response, answered []byte) *upstream.Error {
	e, _ := c.ep.ResponseError(upstream.OpCreate, resp, answered)
	// An answer that refuses and also names a task is contradictory and proves nothing.
	e.Reported = e.Reported && a.Data.Value.TaskID == ""
	return e
}

// Poll reads the state of a task, below the path on which it was created.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	state, err := c.ep.Poll(ctx, ref, upstream.PollCall{Path: taskPath(ref), Read: reader(ref)})
	// The next poll will use a new token, so repeating this one is not worth it.
	c.dropToken(upstream.AsError(upstream.OpPoll, err))
	return state, err
}

func taskPath(ref upstream.TaskRef) string {
	kind := textToVideo
	if ref.Ticket == imageToVideo {
		kind = imageToVideo
	}
	return videosPath + kind + "/" + url.PathEscape(ref.ID)
}

func reader(ref upstream.TaskRef) func(*http.Response, []byte) (upstream.VideoState, bool, error) {
	return func(resp *http.Response, answered []byte) (upstream.VideoState, bool, error) {
		a, err := lax.Decode[answer](answered)
		if err != nil {
			return upstream.VideoState{}, false, err
		}
		if a.Code.form() == refusal && string(a.Data.Value.TaskID) == ref.ID {
			a.Code = code{"0", '0'} // it refuses and yet describes the task
		}
		state, ok := a.state(resp)
		state.Named = a.names(ref.ID)
		return state, ok, nil
	}
}

// withOwnTaskID sets external_task_id to genbus's own ID. The client's value becomes the job's
// request ID and is not sent, because the vendor requires the ID to be unique within the account,
// which several tenants share. The vendor refuses a second create with the same ID, and can find
// the task by it.
func withOwnTaskID(create upstream.VideoCreate) body.Document {
	return create.Body.WithText(externalMember, cmp.Or(create.OwnID, create.JobID))
}
