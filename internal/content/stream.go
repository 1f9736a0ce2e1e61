package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// errClosed is the cause with which a stream's request ends.
var errClosed = errors.New("the content was closed")

// stream is the body of an upstream's answer. It ends the request when a read
// waits too long; the time that the reader of the stream takes does not count.
type stream struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	fail   func(error) error // says what an error of body is about
}

// newStream takes over body and cancel, which ends the body's request.
func newStream(body io.ReadCloser, cancel context.CancelCauseFunc, idle time.Duration, fail func(error) error) *stream {
	timer := time.AfterFunc(idle, func() { cancel(fmt.Errorf("no data for %s", idle)) })
	timer.Stop()
	return &stream{body: body, cancel: cancel, idle: idle, timer: timer, fail: fail}
}

func (s *stream) Read(p []byte) (int, error) {
	s.timer.Reset(s.idle)
	n, err := s.body.Read(p)
	s.timer.Stop()
	if err != nil && err != io.EOF { //nolint:errorlint // a failure that wraps io.EOF is no end
		err = s.fail(err)
	}
	return n, err
}

// Close ends the request first, so that net/http does not read on to save the
// connection.
func (s *stream) Close() error {
	s.timer.Stop()
	s.cancel(errClosed)
	return s.body.Close()
}
