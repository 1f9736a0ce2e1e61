package upstream

import (
	"context"
	"errors"
	"io"
	"time"
)

// answerGrace is how long a create waits for its answer beyond its deadline. It is less than the
// time that a replica waits after that deadline before it takes over the job.
const answerGrace = 2 * time.Second

// awaitAnswer returns the context for waiting for the answer to a request. It ends with ctx. But if
// ctx ends by its deadline after the whole body was sent, it ends answerGrace later. The grace
// starts when the process notices the deadline: a process that was paused finds the answer in its
// socket afterwards, and no other process can learn it. The caller must call end after reading the
// answer.
func awaitAnswer(ctx context.Context, body io.Reader) (_ context.Context, end func()) {
	if ctx.Err() != nil {
		return ctx, func() {}
	}
	waiting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		b, ok := body.(*onceBody)
		if ok && errors.Is(ctx.Err(), context.DeadlineExceeded) && b.left() {
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
