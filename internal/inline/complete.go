package inline

import (
	"context"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/upstream"
)

// Reply is the whole reply of a chat.
type Reply struct {
	// JobID is the chat's job ID.
	JobID string
	// Raw is the upstream's JSON, byte for byte.
	Raw []byte
	// RequestID is the upstream's ID for the call, or empty.
	RequestID string
}

// Complete runs a chat and returns its whole reply. The body must not ask for a stream. The request
// must not have a request_id, which would make the chat a queued job. If the route already has
// max_in_flight inline calls in this process, Complete returns queue_full.
//
// Every error is an *errcode.Error, and includes the job ID once the chat is accepted. Most 4xx
// responses of the upstream keep their status and message.
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
