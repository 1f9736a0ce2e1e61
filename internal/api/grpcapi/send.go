package grpcapi

import (
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

// send runs a call that sends many messages. gRPC has no time limit for sending a message, so a
// client that keeps its connection open but does not read could hold the call forever. Therefore
// send runs the call in another goroutine. If sending one message takes longer than within, send
// returns slow_reader. The handler then returns, which ends the stream and unblocks the goroutine.
//
// The function run must send each message through sent, one at a time.
func send(log *slog.Logger, within time.Duration, run func(sent func(func() error) error) error) error {
	timer := time.NewTimer(within)
	timer.Stop()
	sent := func(send func() error) error {
		timer.Reset(within)
		err := send()
		if !timer.Stop() { // send has already returned slow_reader
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
