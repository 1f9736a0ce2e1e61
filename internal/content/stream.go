package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

var errClosed = errors.New("the content was closed")

// stream is the body of an upstream's response. It cancels the request if a single read stalls. The
// time between reads does not count.
type stream struct {
	body   io.ReadCloser
	cancel context.CancelCauseFunc
	idle   time.Duration
	timer  *time.Timer
	fail   func(error) error // converts an error of body
}

// newStream takes ownership of body and of cancel, which ends the body's request.
func newStream(body io.ReadCloser, cancel context.CancelCauseFunc, idle time.Duration, fail func(error) error) *stream {
	timer := time.AfterFunc(idle, func() { cancel(fmt.Errorf("no data for %s", idle)) })
	timer.Stop()
	return &stream{body: body, cancel: cancel, idle: idle, timer: timer, fail: fail}
}

func (s *stream) Read(p []byte) (int, error) {
	s.timer.Reset(s.idle)
	n, err := s.body.Read(p)
	s.timer.Stop()
	if err != nil && err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is a failure, not the end
		err = s.fail(err)
	}
	return n, err
}

// Close cancels the request first. Otherwise net/http would drain the body to reuse the connection.
func (s *stream) Close() error {
	s.timer.Stop()
	s.cancel(errClosed)
	return s.body.Close()
}
