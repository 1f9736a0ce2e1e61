// Package jimeng is the video protocol of vendor B, Jimeng on Volcengine's visual
// API: the client, the vendor's signature, and the surface that serves the
// vendor's own clients. It is not a poller: it makes one call at a time and says
// what the answer means.
//
// Both calls are POST /?Action=...&Version=..., and only the body tells tasks
// apart. A query needs the req_key of the submission with the task's id, so the
// req_key is the task's ticket.
//
// Behind a gateway (upstream.Options.Gateway) a task is created in the same way.
// Some builds of the gateway do not answer queries of this protocol: they say
// invalid_api_platform. Such a poll is an error whose message names the way out:
// call the model by protocol primary or videos behind that gateway. Nothing here
// falls back to another path, because the base URL has the gateway's prefix for
// this protocol.
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

// maxReqKey bounds a req_key, in bytes: it is kept as the task's ticket.
const maxReqKey = 256

// client speaks the protocol to one upstream. It is safe for concurrent use.
type client struct {
	ep      *upstream.Endpoint
	gateway bool
	now     func() time.Time
}

var _ upstream.VideoClient = (*client)(nil)

// newClient gives a client for ep, which must have passed Validate.
func newClient(ep *upstream.Endpoint, opts upstream.Options) *client {
	return &client{ep: ep, gateway: opts.Gateway, now: time.Now}
}

// Create submits once, with the job's id as Idempotency-Key. The vendor's code
// decides before the HTTP status: 10000 with a task id is Accepted, and the table
// in outcome.go judges everything else. A body without req_key is not sent,
// because its task could never be polled.
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

// accepted reads a 2xx answer to a create.
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

// Poll reads the state of a task. It is a POST that submits nothing. An answer
// that says that the task failed is no error, although the vendor sends it with
// HTTP 400; limits, refused signatures and everything unreadable are errors and
// never a failed task.
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
