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

// Delays before an interrupted watch is resumed.
const (
	firstResume = 200 * time.Millisecond
	maxResume   = 5 * time.Second
	// resumeFor is how long to wait for an unavailable genbus.
	resumeFor = 2 * time.Minute
	// sayAwayAfter is the delay before the user is told about the wait. A restart takes less.
	sayAwayAfter = 5 * time.Second
)

// resumed yields the items of a watch until it ends, and reopens it after an interruption. It calls
// seen after each handled item, so that open can continue there.
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
			if time.Since(opened) > maxResume { // it worked until now, even without items
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
			case !said && time.Since(last) > sayAwayAfter:
				said = true
				fmt.Fprintf(os.Stderr, "genbus: no answer, retrying for %s: %s\n", resumeFor, clean(status.Convert(err).Message()))
			}
			_ = broker.Wait(ctx, wait) // the next call reports the end of ctx
			wait = min(2*wait, maxResume)
		}
	}
}

// cutOff reports whether a watch can be resumed: the connection is lost, the stream has reached its
// maximum lifetime, or this reader was too slow.
func cutOff(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
