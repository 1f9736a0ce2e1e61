package pool

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/genbus/genbus/internal/upstream/chat"
)

// Stream is a streamed reply from one key, with the methods of chat.Stream. It is not safe for
// concurrent use.
type Stream struct {
	*chat.Stream
	chat    *Chat
	ctx     context.Context // of all attempts
	cancel  context.CancelFunc
	attempt *attempt
	over    bool // the outcome has been reported
}

// Stream returns a streamed reply, trying keys in turn until one has sent its first block. Next
// returns later failures without failover. The errors are those of Complete. The caller must close
// the stream.
func (c *Chat) Stream(ctx context.Context, req ChatRequest) (*Stream, error) {
	s := &Stream{chat: c}
	s.ctx, s.cancel = context.WithTimeoutCause(ctx, c.total, c.late)
	err := c.run(s.ctx, req, func(a *attempt) error {
		up, err := a.client.Stream(s.ctx, a.request)
		if err != nil {
			return err
		}
		a.slot.Begun()
		a.slot.service.metrics.FirstBlock(time.Since(a.begin))
		s.Stream, s.attempt = up, a
		return nil
	})
	if err != nil {
		s.cancel()
		return nil, err
	}
	return s, nil
}

// UpstreamKey returns the key that serves the stream.
func (s *Stream) UpstreamKey() UpstreamKey { return s.attempt.slot.UpstreamKey() }

// Next returns the next block. The errors are those of chat.Stream.Next.
func (s *Stream) Next() ([]byte, error) {
	block, err := s.Stream.Next()
	switch {
	case err == nil:
		return block, nil
	case s.over:
		return nil, err
	case errors.Is(err, io.EOF):
		s.over = true
		s.attempt.answered(s.Status())
		return nil, err
	}
	return nil, s.failed(err)
}

// Unusable ends a stream whose blocks cannot be assembled because of err, and returns the error
// that Next would return. It counts this as a failure of the upstream, unless the stream had
// already ended.
func (s *Stream) Unusable(err error) error {
	err = s.Stream.Unusable(err)
	if s.over {
		return err
	}
	return s.failed(err)
}

func (s *Stream) failed(err error) error {
	s.over = true
	e := s.chat.explain(s.ctx, err)
	s.attempt.failed(e)
	return e
}

// Close ends the call at any point. It may be called more than once.
func (s *Stream) Close() {
	if !s.over {
		// The caller left, which reveals nothing about the upstream.
		s.over = true
		s.attempt.measure("given_up", s.Status())
	}
	s.Stream.Close()
	s.attempt.slot.Release()
	s.cancel()
}
