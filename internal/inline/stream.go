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
	// Data is the upstream's JSON, byte for byte, valid until the next call of
	// Next.
	Data []byte
	// Index counts the blocks from 0.
	Index uint64
	// More says that the next call of Next returns at once, or says first that it does
	// not (OnWait).
	More bool
}

// Stream is a streamed reply. It is not safe for concurrent use.
type Stream struct {
	c      *call
	up     *pool.Stream
	index  uint64
	err    error // sticky
	over   bool  // the upstream has nothing more to say
	closed bool
}

// Stream runs a chat and waits for the first block of its reply, so an error
// here means that nothing was received and the caller can still be given a
// status. The errors are those of Complete; a body that says stream: false is
// invalid. The caller closes the stream.
func (r *Runner) Stream(ctx context.Context, req admission.Request) (*Stream, error) {
	c, err := r.open(ctx, req, true)
	if err != nil {
		return nil, err
	}
	var up *pool.Stream
	defer func() {
		if up == nil { // an error, or a panic: there is no stream to be closed
			c.release()
		}
	}()
	up, err = c.route.Caller.Stream(c.ctx, c.request(true))
	if err != nil {
		return nil, c.failed(err)
	}
	return &Stream{c: c, up: up}, nil
}

// JobID is the chat's id.
func (s *Stream) JobID() string { return s.c.checked.ID }

// OnWait has wait called when Next is about to wait for room for the events of the chat, so that what its
// caller holds back is sent first. It comes before the first Next.
func (s *Stream) OnWait(wait func()) { s.c.onWait = wait }

// Next gives the next block. The error is io.EOF when the reply is whole, else a
// *errcode.Error. The first error is returned by every later call.
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

// read takes the next block from the upstream and copies it for the events.
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

// Close ends the chat. Before the end of the reply it means that the caller went
// away: the upstream call is given up, or, with chat.finish_for_subscribers, goes
// on without its caller. It may be called twice.
func (s *Stream) Close() {
	switch {
	case s.closed:
	case !s.over && s.c.outlives:
		s.closed = true
		s.c.onWait = func() {} // its caller has left
		go s.finish()
	default:
		s.closed = true
		s.end()
	}
}

// finish reads the rest for the subscribers. The runner waits for it, because
// the call has not left.
func (s *Stream) finish() {
	for !s.over {
		_, _ = s.read() // its error has set over
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
