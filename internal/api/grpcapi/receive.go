package grpcapi

import (
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// RecvMsg reads the next message within a deadline. Authenticated client-streaming calls have no
// deadline, because the client may pause between messages.
func (s *callStream) RecvMsg(m any) error {
	read := func() error { return s.read(m) }
	switch {
	case callOf(s.ctx).method.open():
		release, err := s.interceptor.unauthenticated.acquire(s.ctx)
		if err != nil {
			return err
		}
		defer release()
		return receive(s.interceptor.log, unauthenticatedTimeout, read)
	case s.manyRequests:
		return read()
	default:
		return receive(s.interceptor.log, s.interceptor.core.BodyTimeout, read)
	}
}

// receive reads a message with a time limit. gRPC has no such limit, so a client that sends only
// part of a message could hold the call forever. The read runs in another goroutine. When the
// handler returns, gRPC ends the stream and with it the read.
func receive(log *slog.Logger, within time.Duration, read func() error) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-runAsync(log, read):
		return err
	case <-timer.C:
		return errcode.New(errcode.InvalidRequest, "the call's message did not arrive completely within %s", within)
	}
}

// runAsync runs part of a call in another goroutine and delivers its error on the channel. It turns
// a panic into an error because the interceptor can recover only panics of its own goroutine.
func runAsync(log *slog.Logger, run func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				log.Error("panic in gRPC call", telemetry.KeyError, p, "stack", string(debug.Stack()))
				err = core.PanicFault()
			}
			done <- err
		}()
		err = run()
	}()
	return done
}
