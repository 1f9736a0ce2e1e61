package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// pausedRetry is the Retry-After for a paused route. The end of the pause is not known in advance.
const pausedRetry = 10 * time.Second

// Running returns route_paused if an operator has paused the route. It is for jobs that cannot wait
// in the queue. The state may be up to 1 s old. While JetStream is unavailable, the last known
// state applies. If no state is known, the route counts as running.
func (a *Admission) Running(ctx context.Context, kind subject.Kind, route string) error {
	if !a.queue.Route(kind, route).Paused(ctx) {
		return nil
	}
	return errcode.New(errcode.RoutePaused, "an operator paused route %s; send the chat with a request_id to queue it, or try again later", route).
		WithRetryAfter(pausedRetry)
}
