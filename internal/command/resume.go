package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/broker"
)

// Delays before resuming an interrupted watch.
const (
	firstResume = 200 * time.Millisecond
	maxResume   = 5 * time.Second
	// resumeFor is how long to retry while genbus is unavailable.
	resumeFor = 2 * time.Minute
	// reportAfter is the delay before telling the user about the wait. A restart takes less time.
	reportAfter = 5 * time.Second
)

// resumed yields the items of a watch until the watch ends. It reopens the watch after an
// interruption. It calls seen after each item has been handled, so that open can continue after
// that item.
func resumed[T any](ctx context.Context, open func() (recv func() (T, error), err error), seen func(T)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		last, wait, said := time.Now(), firstResume, false
		for {
			opened := time.Now()
			recv, err := open()
			for err == nil {
				var item T
				if item, err = recv(); err != nil {
					break
				}
				if !yield(item, nil) {
					return
				}
				seen(item)
				last, wait, said = time.Now(), firstResume, false
			}
			if time.Since(opened) > maxResume { // the watch worked until now, even if it had no items
				last, wait, said = time.Now(), firstResume, false
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case ctx.Err() != nil:
				yield(zero, context.Cause(ctx))
				return
			case !cutOff(err) || time.Since(last) > resumeFor:
				yield(zero, answered(err))
				return
			case !said && time.Since(last) > reportAfter:
				said = true
				fmt.Fprintf(os.Stderr, "genbus: no answer, retrying for %s: %s\n", resumeFor, clean(status.Convert(err).Message()))
			}
			_ = broker.Wait(ctx, wait) // the next call reports the end of ctx
			wait = min(2*wait, maxResume)
		}
	}
}

// cutOff reports whether a watch can be resumed after an error. This is the case if the connection
// was lost, the stream reached its maximum lifetime, or this reader was too slow.
func cutOff(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
