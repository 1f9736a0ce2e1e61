package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestTheLastSendingSaysWhy checks that a request whose time ends during a retry still reports the
// error of the last attempt.
func TestTheLastSendingSaysWhy(t *testing.T) {
	t.Parallel()
	for range 50 { // the context and the timer end together, and either may win
		synctest.Test(t, func(t *testing.T) {
			c, err := New(&nats.Conn{}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), firstPause)
			defer cancel()
			err = c.send(ctx, request{kind: Video, message: &genbusv1.VideoRequest{}, id: "one"}, "x", func(context.Context, *nats.Msg) error { return nats.ErrNoResponders })
			if !errors.Is(err, nats.ErrNoResponders) || !errors.Is(err, ErrBrokerUnavailable) {
				t.Fatal(err)
			}
		})
	}
}
