package grpcapi

import (
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

// send runs a call that sends many messages. gRPC has no deadline for a single message, so a client
// that keeps its connection but does not read could hold the call for ever. Therefore send runs the
// call in another goroutine. When one message takes longer than within, the handler returns
// slow_reader, which ends the stream and frees the call.
//
// The function run must pass each send to sent, one at a time.
func send(log *slog.Logger, within time.Duration, run func(sent func(func() error) error) error) error {
	timer := time.NewTimer(within)
	timer.Stop()
	sent := func(send func() error) error {
		timer.Reset(within)
		err := send()
		if !timer.Stop() { // the handler has returned, and err says nothing more
			return unread(within)
		}
		return err
	}
	select {
	case err := <-runAsync(log, func() error { return run(sent) }):
		return err
	case <-timer.C:
		return unread(within)
	}
}

func unread(within time.Duration) error {
	return errcode.New(errcode.SlowReader, "the client read no message for %s, so the stream ended", within)
}
