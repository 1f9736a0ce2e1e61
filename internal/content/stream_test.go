package content

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// silence is a body that blocks until its request ends.
type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

func (s silence) Close() error { return nil }

func same(err error) error { return err }

func TestStreamEndsAStalledBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := newStream(silence{ctx}, cancel, time.Minute, same)
		start := time.Now()
		_, err := s.Read(make([]byte, 1))
		if took := time.Since(start); took != time.Minute || err == nil || err.Error() != "no data for 1m0s" {
			t.Errorf("after %s: %v", took, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestStreamWaitsForItsReader checks that a slow client does not count as a stalled upstream.
func TestStreamWaitsForItsReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		body := io.NopCloser(strings.NewReader("abc"))
		s := newStream(body, cancel, time.Minute, same)
		for range 3 {
			if n, err := s.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Fatalf("read %d, %v", n, err)
			}
			time.Sleep(time.Hour) //nolint:forbidigo // time is fake in the bubble
		}
		if _, err := s.Read(make([]byte, 1)); err != io.EOF || ctx.Err() != nil {
			t.Errorf("at the end: %v, context %v", err, ctx.Err())
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		if !errors.Is(context.Cause(ctx), errClosed) {
			t.Errorf("the request ended with %v", context.Cause(ctx))
		}
	})
}
