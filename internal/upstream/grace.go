package upstream

import (
	"context"
	"errors"
	"io"
	"time"
)

// answerGrace is how much longer than its deadline a create waits for its answer.
// It is less than a replica that takes a job over waits after the same deadline.
const answerGrace = 2 * time.Second

// awaitAnswer gives the context of a request whose deadline bounds its writing: it
// ends as ctx does, but where ctx ended by its deadline and all of the body has left
// by then, answerGrace later. The grace counts from when the end was noticed: a
// process that was stopped finds the answer in its socket when the time for it has
// passed, and no other process can know any more what the upstream said. end is called
// when the answer was read.
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
