package kling

import (
	"context"
	"net/http"
	"strings"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// vendorClient is a client of the vendor itself. The vendor can find a task by its
// external_task_id, which a gateway does not know.
type vendorClient struct{ *client }

// clientOf returns a client that implements upstream.Finder unless it calls a gateway.
func clientOf(c *client) upstream.VideoClient {
	if c.gateway {
		return c
	}
	return vendorClient{c}
}

// Find looks up a task below the path on which it was created.
func (c vendorClient) Find(ctx context.Context, own upstream.TaskRef) (*upstream.Found, error) {
	resp, answered, err := c.ep.Call(ctx, upstream.OpFind, http.MethodGet, taskPath(own), nil, nil)
	if err != nil {
		e := upstream.AsError(upstream.OpFind, err)
		c.dropToken(e)
		return nil, unlessNotFound(e)
	}
	a, err := lax.Decode[answer](answered)
	switch {
	case err == nil && a.Code.form() == refusal:
		e, _ := c.ep.ResponseError(upstream.OpFind, resp, answered)
		return nil, unlessNotFound(e)
	case err == nil && a.Code.form() == vendorForm && isEmpty(body.Parse(answered).Member("data")):
		return nil, nil //nolint:nilnil // nil without an error means not visible (see upstream.Finder)
	case err != nil || a.Code.form() != vendorForm || a.taskID() == "" || len(a.taskID()) > upstream.MaxTaskID:
		return nil, c.ep.Useless(upstream.OpFind, "the answer names no task", resp, answered, err)
	}
	found := &upstream.Found{OwnID: string(a.Data.Value.Info.Value.ExternalTaskID), CreatedAt: a.Data.Value.CreatedAt.Time}
	found.Submission = upstream.Submission{Verdict: upstream.Accepted, UpstreamID: a.taskID(), Ticket: own.Ticket}
	found.Submission.State, _ = a.state(resp)
	return found, nil
}

func isEmpty(data []byte) bool {
	return data == nil || string(data) == "null" || string(data) == "[]"
}

// unlessNotFound returns e, or nil if the vendor reports that there is no such task. The vendor
// does so with code 1203, or with 1201 (wrong parameter) and a message that contains "not found".
func unlessNotFound(e *upstream.Error) error {
	if e.Reported && (e.Code == "1203" || e.Code == "1201" && strings.Contains(strings.ToLower(e.Message), "not found")) {
		return nil
	}
	return e
}
