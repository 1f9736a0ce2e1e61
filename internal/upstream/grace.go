package upstream

import (
	"context"
	"errors"
	"io"
	"time"
)

// answerGrace is how long a create waits for its answer beyond its deadline. It must be shorter
// than the time that other replicas wait after that deadline before they take over the job.
const answerGrace = 2 * time.Second

// awaitAnswer returns a context for awaiting the answer to a request. The context ends with ctx,
// unless ctx reaches its deadline after the whole body was sent. In that case it ends answerGrace
// later. The grace period starts when the process notices the deadline, because a process that was
// paused may find the answer in its socket when it resumes, and no other process can receive it.
// The caller must call end after reading the answer.
func awaitAnswer(ctx context.Context, body io.Reader) (_ context.Context, end func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		b, ok := body.(*onceBody)
		if ok && errors.Is(ctx.Err(), context.DeadlineExceeded) && b.wholeRead() {
			grace := time.NewTimer(answerGrace)
			defer grace.Stop()
			select {
			case <-grace.C:
			case <-waiting.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return waiting, func() {
		forget()
		cancel(nil)
	}
}
