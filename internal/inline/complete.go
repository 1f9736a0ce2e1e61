package inline

import (
	"context"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/upstream"
)

// Reply is a whole reply.
type Reply struct {
	// JobID is the chat's id.
	JobID string
	// Raw is the upstream's JSON, byte for byte.
	Raw []byte
	// RequestID is the upstream's id for the call, or empty.
	RequestID string
}

// Complete runs a chat and returns its whole reply. A body that asks for a
// stream is invalid. More calls at a time than the route's max_in_flight, in
// this process, are refused with queue_full. The request has no request_id:
// with one, a chat is a queued job.
//
// Every error is a *errcode.Error, with the chat's id once it was accepted. A 4xx
// of the upstream keeps its status and message.
func (r *Runner) Complete(ctx context.Context, req admission.Request) (Reply, error) {
	c, err := r.open(ctx, req, false)
	if err != nil {
		return Reply{}, err
	}
	defer c.release()
	reply, err := c.route.Caller.Complete(c.ctx, c.request(false))
	if err != nil {
		return Reply{}, c.failed(err)
	}
	c.rec.close(outcome{reply: reply.Raw, from: reply.UpstreamKey})
	return Reply{JobID: c.checked.ID, Raw: reply.Raw, RequestID: upstream.RequestID(reply.Header)}, nil
}
