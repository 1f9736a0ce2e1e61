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

// Waits before a watch that was cut off is resumed.
const (
	firstResume = 200 * time.Millisecond
	maxResume   = 5 * time.Second
	// resumeFor is how long a genbus that is away is waited for.
	resumeFor = 2 * time.Minute
	// sayAwayAfter is when one who waits for it is told so: a restart is over by then.
	sayAwayAfter = 5 * time.Second
)

// resumed yields what a watch brings until it ends, and opens it again where it was when
// it is cut off. seen hears of each item when it has been handled.
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
			if time.Since(opened) > maxResume { // it was there until now, if quiet
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
			_ = broker.Wait(ctx, wait) // the next call says that ctx has ended
			wait = min(2*wait, maxResume)
		}
	}
}

// cutOff reports whether a watch may be resumed: the connection is gone, the stream has
// reached its longest life, or this reader was too slow.
func cutOff(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.ResourceExhausted
}
