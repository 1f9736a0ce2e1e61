package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// pausedRetry is when a caller may try a paused route again. How long an operator needs
// is not known.
const pausedRetry = 10 * time.Second

// Running refuses, with route_paused, a job that cannot wait while an operator has
// paused its route. What is known is up to a second old. While JetStream is away it is
// what was known last, or that the route runs.
func (a *Admission) Running(ctx context.Context, kind subject.Kind, route string) error {
	if !a.queue.Route(kind, route).Paused(ctx) {
		return nil
	}
	return errcode.New(errcode.RoutePaused, "an operator paused route %s; send the chat with a request_id to queue it, or try again later", route).
		WithRetryAfter(pausedRetry)
}
