package inline

import (
	"context"
	"errors"
	"io"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
)

// Block is one block of a streamed reply.
type Block struct {
	// Data is the upstream's JSON, byte for byte, valid until the next call of Next.
	Data []byte
	// Index counts the blocks from 0.
	Index uint64
	// More reports that the next call of Next returns at once or calls the OnWait function first.
	More bool
}

// Stream is a streamed reply. It is not safe for concurrent use.
type Stream struct {
	c      *call
	up     *pool.Stream
	index  uint64
	err    error // sticky
	over   bool  // the upstream stream has ended
	closed bool
}

// Stream runs a chat and waits for the first block of its reply, so that the caller can still be
// given a status for any error. It returns the same errors as Complete. A body with stream: false
// is invalid. The caller must close the stream.
func (r *Runner) Stream(ctx context.Context, req admission.Request) (*Stream, error) {
	c, err := r.open(ctx, req, true)
	if err != nil {
		return nil, err
	}
	var up *pool.Stream
	defer func() {
		if up == nil { // an error or a panic: there is no stream to close
			c.release()
		}
	}()
	up, err = c.route.Caller.Stream(c.ctx, c.request(true))
	if err != nil {
		return nil, c.failed(err)
	}
	return &Stream{c: c, up: up}, nil
}

// JobID returns the chat's job ID.
func (s *Stream) JobID() string { return s.c.checked.ID }

// OnWait makes Next call wait before it waits for event capacity, so that the caller can send
// buffered blocks first. Call it before the first Next.
func (s *Stream) OnWait(wait func()) { s.c.onWait = wait }

// Next returns the next block, io.EOF after a complete reply, or an *errcode.Error. Every later
// call returns the first error again.
func (s *Stream) Next() (Block, error) {
	if s.err != nil {
		return Block{}, s.err
	}
	if s.c.gone() {
		s.err = errcode.New(errcode.CallerGone, "the chat continues for its subscribers: %w", errGone).ForJob(s.JobID())
		return Block{}, s.err
	}
	data, err := s.read()
	if err != nil {
		s.err = err
		return Block{}, err
	}
	s.index++
	return Block{Data: data, Index: s.index - 1, More: s.up.More()}, nil
}

// read reads the next block from the upstream and copies it for the events.
func (s *Stream) read() ([]byte, error) {
	block, err := s.up.Next()
	if err == nil {
		if s.c.rec.mustWait(len(block)) {
			s.c.onWait()
		}
		s.c.rec.add(s.c.ctx, block)
		return block, nil
	}
	s.over = true
	if !errors.Is(err, io.EOF) {
		return nil, s.c.failed(err)
	}
	s.c.rec.close(outcome{from: s.up.UpstreamKey()})
	return nil, io.EOF
}

// Close ends the chat. Before the end of the reply, it cancels the upstream call or, with
// chat.finish_for_subscribers, lets it continue without the caller. It may be called twice.
func (s *Stream) Close() {
	switch {
	case s.closed:
	case !s.over && s.c.outlives:
		s.closed = true
		s.c.onWait = func() {} // no caller is left to call
		go s.finish()
	default:
		s.closed = true
		s.end()
	}
}

// finish reads the rest for the subscribers. Runner.Close waits for it, because the call is not
// released before.
func (s *Stream) finish() {
	for !s.over {
		_, _ = s.read() // an error sets over
	}
	s.end()
}

func (s *Stream) end() {
	if !s.over {
		s.over = true
		s.c.rec.close(outcome{fault: errcode.New(errcode.CallerGone, "%w", errGone)})
	}
	s.up.Close()
	s.c.release()
	if s.err == nil {
		s.err = errcode.New(errcode.CallerGone, "the stream is closed").ForJob(s.JobID())
	}
}
