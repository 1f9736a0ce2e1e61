package api

import (
	"context"

	"github.com/genbus/genbus/internal/fault"
)

// follow joins a call that only follows a job. It ends when the process drains,
// and with stream_ended when it has lived for limits.stream_time: a client that
// went away without a word is found, and connections spread over new replicas.
// leave must be called when it is over.
func (c *core) follow(ctx context.Context) (_ context.Context, leave func()) {
	most := c.cfg.Now().Limits.StreamTime
	ctx, stop := context.WithTimeoutCause(ctx, most,
		fault.New(fault.StreamEnded, "no stream lives longer than %s here; resume after the last event", most))
	ctx, left := c.drain.watch(ctx)
	return ctx, func() {
		left()
		stop()
	}
}
