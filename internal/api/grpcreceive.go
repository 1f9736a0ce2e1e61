package api

import (
	"time"

	"github.com/genbus/genbus/internal/fault"
)

// RecvMsg reads the call's one message, or the next of them: a client that sends
// many may think between two.
func (s *callStream) RecvMsg(m any) error {
	read := func() error { return s.read(m) }
	switch {
	case callOf(s.ctx).method.open():
		leave, err := s.core.strangers.enter(s.ctx)
		if err != nil {
			return err
		}
		defer leave()
		return s.core.receive(strangerTimeout, read)
	case s.manyRequests:
		return read()
	default:
		return s.core.receive(s.core.bodyTimeout, read)
	}
}

// receive reads a message within a time. gRPC waits for it as long as the
// connection lives: a client that sends a part of it would hold the call for ever.
// So it is read beside the handler, whose return ends the stream, and with that the
// reading.
func (c *core) receive(within time.Duration, read func() error) error {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case err := <-c.beside(read):
		return err
	case <-timer.C:
		return fault.New(fault.InvalidRequest, "the call's message did not arrive whole within %s", within)
	}
}

// beside runs a part of a call beside its handler, and gives its error. A panic is
// an error too: the interceptor's recover does not reach another goroutine.
func (c *core) beside(run func() error) <-chan error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = c.panicked(p)
			}
			done <- err
		}()
		err = run()
	}()
	return done
}
