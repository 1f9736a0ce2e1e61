// Package jimeng implements the video protocol of Jimeng (vendor B) on Volcengine's visual API: the
// client, the vendor's signature, and the surface for the vendor's own clients. The client makes
// single calls; the caller decides when to poll.
//
// Creates and queries are POST /?Action=...&Version=..., and only the body identifies the task. A
// query needs the create's req_key in addition to the task's ID, so the req_key is the task's
// ticket.
//
// A gateway (upstream.Options.Gateway) accepts the same creates, but some builds refuse queries of
// this protocol with invalid_api_platform. The error then suggests protocol primary or videos
// instead. The client cannot fall back to their paths, because the base URL contains the gateway's
// prefix for this protocol.
package jimeng

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// The two calls, as paths below the base URL.
const (
	actionSubmit = "CVSync2AsyncSubmitTask"
	actionQuery  = "CVSync2AsyncGetResult"
	version      = "2022-08-31"

	submitPath = "/?Action=" + actionSubmit + "&Version=" + version
	queryPath  = "/?Action=" + actionQuery + "&Version=" + version
)

// maxReqKey is the maximum length in bytes of a req_key, which is stored as the task's ticket.
const maxReqKey = 256

// client speaks the protocol with one upstream key. It is safe for concurrent use.
type client struct {
	ep      *upstream.Endpoint
	gateway bool
	now     func() time.Time
}

var _ upstream.VideoClient = (*client)(nil)

func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	return &client{ep: ep, gateway: opts.Gateway, now: time.Now}
}

// Create submits once, with the job's ID as Idempotency-Key. The vendor's code takes precedence
// over the HTTP status: 10000 with a task ID is Accepted, and the table in outcome.go judges
// everything else. A body without req_key is not sent, because its task could not be polled.
func (c *client) Create(ctx context.Context, create upstream.VideoCreate) upstream.Submission {
	reqKey := bodies{}.Ticket(create.Body)
	if reqKey == "" || len(reqKey) > maxReqKey {
		return notSent(errors.New("the body needs a req_key of 1 to 256 bytes"))
	}
	sent := create.Body
	if c.gateway {
		sent = gatewayBody(sent)
	}
	if err := sent.Err(); err != nil {
		return notSent(err)
	}
	sub := c.ep.Submit(ctx, create, upstream.SubmitCall{Path: submitPath, Body: sent.Bytes(), Outcomes: outcomes, Read: c.accepted})
	if sub.Verdict == upstream.Accepted {
		sub.Ticket = reqKey
	}
	return sub
}

func notSent(err error) upstream.Submission {
	return upstream.Submission{Verdict: upstream.RefusedForGood, Err: upstream.NotSent(upstream.OpCreate, err)}
}

func (c *client) accepted(resp *http.Response, raw []byte) (upstream.Submission, *upstream.Error) {
	a, err := lax.Decode[answer](raw)
	if err != nil {
		return upstream.Submission{}, c.ep.Useless(upstream.OpCreate, "the upstream's answer is not readable", resp, raw, err)
	}
	if upstream.Meaningful(string(a.Code)) != "" {
		e, _ := c.ep.ResponseError(upstream.OpCreate, resp, raw)
		return upstream.Submission{}, e
	}
	return upstream.Submission{UpstreamID: a.taskID(), State: a.firstState()}, nil
}

// Poll reads the state of a task with a POST, which does not submit a job. A failed task is not an
// error, although the vendor reports it with HTTP 400. Limits, refused signatures and unreadable
// answers are errors and never fail the task.
func (c *client) Poll(ctx context.Context, ref upstream.TaskRef) (upstream.VideoState, error) {
	if ref.ID == "" || ref.Ticket == "" {
		return upstream.VideoState{}, upstream.NotSent(upstream.OpPoll, errors.New("the task id or its req_key is empty"))
	}
	resp, raw, err := c.ep.Call(ctx, upstream.OpPoll, http.MethodPost, queryPath, queryBody(ref), nil)
	if resp == nil {
		return upstream.VideoState{}, err
	}
	a, unreadable := lax.Decode[answer](raw)
	if unreadable == nil {
		if state, ok := c.state(a, resp, ref.ID); ok {
			state.Conclude(resp, raw, false)
			return state, nil
		}
	}
	if err == nil {
		err = c.ep.Useless(upstream.OpPoll, "the answer says nothing about the task", resp, raw, unreadable)
	}
	return upstream.VideoState{}, hinted(upstream.AsError(upstream.OpPoll, err))
}

func queryBody(ref upstream.TaskRef) []byte {
	var o body.Object
	o.SetText("req_key", ref.Ticket)
	o.SetText("task_id", ref.ID)
	return o.JSON()
}
