package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// pausedRetry is the Retry-After for a paused route if the end of the pause is not known.
	pausedRetry = 10 * time.Second
	// maxPausedRetry bounds a known end. The route may resume earlier, and the SDKs of OpenAI ignore
	// longer times.
	maxPausedRetry = time.Minute
)

// Running returns route_paused if an operator has paused the route. It is for jobs that cannot wait
// in the queue. The state may be up to 1 s old. While JetStream is unavailable, the last known
// state applies. If no state is known, the route counts as running.
func (a *Admission) Running(ctx context.Context, kind subject.Kind, route string) error {
	p := a.queue.Route(kind, route).Paused(ctx)
	if p == nil {
		return nil
	}
	retry, details := pausedRetry, ""
	if !p.Until.IsZero() {
		retry = min(max(time.Until(p.Until), time.Second), maxPausedRetry)
		details = " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		details += " (" + p.Reason + ")"
	}
	return errcode.New(errcode.RoutePaused, "an operator paused route %s%s; send the chat with a request_id to queue it, or try again later", route, details).
		WithRetryAfter(retry)
}
