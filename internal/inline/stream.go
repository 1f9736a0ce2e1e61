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
	// Data is the upstream's JSON, byte for byte. It is valid until the next call to Next.
	Data []byte
	// Index is the index of the block, starting at 0.
	Index uint64
	// More reports whether the next call to Next returns at once or first calls the OnWait
	// function.
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

// Stream runs a chat and waits for the first block of its reply, which a model that thinks may send
// after minutes. It first calls accepted, unless that is nil, with the job ID. Stream returns the
// same errors as Complete. The body must not have stream: false. The caller must close the stream.
func (r *Runner) Stream(ctx context.Context, req admission.Request, accepted func(jobID string)) (*Stream, error) {
	c, err := r.open(ctx, req, true)
	if err != nil {
		return nil, err
	}
	var up *pool.Stream
	defer func() {
		if up == nil { // after an error or a panic, there is no stream to close
			c.release()
		}
	}()
	if accepted != nil {
		accepted(c.checked.ID)
	}
	up, err = c.route.Caller.Stream(c.ctx, c.request(true))
	if err != nil {
		return nil, c.failed(err)
	}
	return &Stream{c: c, up: up}, nil
}

// JobID returns the chat's job ID.
func (s *Stream) JobID() string { return s.c.checked.ID }

// OnWait registers a function that Next calls before it waits for event capacity, so that the
// caller can first send buffered blocks. Call OnWait before the first call to Next.
func (s *Stream) OnWait(wait func()) { s.c.onWait = wait }

// Next returns the next block, io.EOF after a complete reply, or an *errcode.Error. Once Next has
// returned an error, later calls return the same one.
func (s *Stream) Next() (Block, error) {
	if s.err != nil {
		return Block{}, s.err
	}
	if s.c.callerLeft() {
		s.err = errcode.New(errcode.CallerGone, "the chat continues for its subscribers: %w", errDisconnected).ForJob(s.JobID())
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

// read reads the next block from the upstream and adds a copy to the chat's events.
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

// Close ends the chat. If the reply is incomplete, Close cancels the upstream call or, with
// chat.finish_for_subscribers, lets it continue without the caller. It may be called more than
// once.
func (s *Stream) Close() {
	switch {
	case s.closed:
	case !s.over && s.c.outlives:
		s.closed = true
		s.c.onWait = func() {} // the caller has left
		go s.finish()
	default:
		s.closed = true
		s.end()
	}
}

// finish reads the rest of the reply for subscribers. Runner.Close waits until finish has released
// the call.
func (s *Stream) finish() {
	for !s.over {
		_, _ = s.read() // an error sets over
	}
	s.end()
}

func (s *Stream) end() {
	if !s.over {
		s.over = true
		s.c.rec.close(outcome{fault: errcode.New(errcode.CallerGone, "%w", errDisconnected)})
	}
	s.up.Close()
	s.c.release()
	if s.err == nil {
		s.err = errcode.New(errcode.CallerGone, "the stream is closed").ForJob(s.JobID())
	}
}
