package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// lookWithin bounds the look at a route's state on behalf of a caller who does
	// not need JetStream otherwise.
	lookWithin = 250 * time.Millisecond
	// pausedRetry is when a caller may try a paused route again. How long an operator
	// needs nobody knows.
	pausedRetry = 10 * time.Second
)

// Running refuses, with route_paused, a job that cannot wait while an operator has
// paused its route. What is known is up to a second old. While JetStream is away
// the last that was known stands, or that the route runs.
func (a *Admission) Running(ctx context.Context, kind subject.Kind, route string) error {
	if !a.paused(ctx, kind, route) {
		return nil
	}
	return fault.New(fault.RoutePaused, "an operator has paused route %s; send the chat with a request_id to have it wait in the queue, or try again later", route).
		WithRetryAfter(pausedRetry)
}

func (a *Admission) paused(ctx context.Context, kind subject.Kind, route string) bool {
	if a.b.Trouble() != nil {
		return a.queues.count(subject.WorkDurable(kind, route)).paused.Load()
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	return a.queues.look(ctx, kind, route).paused.Load()
}
