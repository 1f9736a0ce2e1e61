package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// pausedRetry is the Retry-After of a paused route, whose end is unknown.
const pausedRetry = 10 * time.Second

// Running refuses a job that cannot wait, with route_paused, while an operator has paused its
// route. The known state is up to 1 s old. While JetStream is away, the last known state applies,
// or else the route counts as running.
func (a *Admission) Running(ctx context.Context, kind subject.Kind, route string) error {
	if !a.queue.Route(kind, route).Paused(ctx) {
		return nil
	}
	return errcode.New(errcode.RoutePaused, "an operator paused route %s; send the chat with a request_id to queue it, or try again later", route).
		WithRetryAfter(pausedRetry)
}
