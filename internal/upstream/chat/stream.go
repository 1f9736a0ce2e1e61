package chat

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/genbus/genbus/internal/upstream/sse"
)

var errClosed = errors.New("chat: the stream is closed")

// Stream is a streamed reply. It is not safe for concurrent use.
type Stream struct {
	call      *call
	events    *sse.Reader
	progress  progress
	converted [][]byte // remaining chunks of a reply that arrived as one JSON answer
	isWhole   bool
	first     []byte // read by begin, not yet returned
	err       error  // sticky; io.EOF after a complete reply
	doneSeen  bool
}

// Stream requests a streamed reply and waits for its first block. If it fails, no block has been
// passed on, so the client can still get an HTTP status. The errors are those of Complete. The
// caller must close the stream.
func (c *Client) Stream(ctx context.Context, req Request) (*Stream, error) {
	call, err := c.open(ctx, req, "text/event-stream, application/json", limits{c.opts.FirstByte, c.opts.Idle, c.opts.Total})
	if err != nil {
		return nil, err
	}
	s := &Stream{call: call}
	if err := s.begin(); err != nil {
		call.close()
		return nil, err
	}
	return s, nil
}

func (s *Stream) begin() error {
	switch kind, err := s.call.sniff(); {
	case err != nil:
		return err
	case kind == kindJSON:
		body, err := s.call.readReply()
		if err != nil {
			return err
		}
		s.converted, err = toChunks(body)
		if err != nil {
			return s.call.assemblyFailed(err)
		}
		s.isWhole = true
		return nil
	case kind == kindOther:
		return s.call.unreadable()
	}
	s.events = sse.NewReader(s.call, s.call.client.opts.MaxEvent)
	first, err := s.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	s.first = first
	return nil
}

// Next returns the next block of the reply: the upstream's JSON byte for byte, which may contain
// line breaks. The block is valid until the next call. The error is io.EOF only if the reply is
// complete, that is, if the stream contained [DONE] or a finish_reason for every choice. Any other
// error is an *upstream.Error as from Complete. After an error, every call returns the same error.
func (s *Stream) Next() ([]byte, error) {
	if first := s.first; first != nil {
		s.first = nil
		return first, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	if s.isWhole {
		return s.nextConverted()
	}
	for {
		event, err := s.events.Next()
		if err != nil {
			s.err = s.end(err)
			return nil, s.err
		}
		use, err := s.look(event)
		if err != nil {
			s.err = err
			return nil, err
		}
		if use {
			if s.progress.complete() {
				s.call.watch.completed()
			}
			return event.Data, nil
		}
	}
}

// More reports whether Next will return without waiting for the upstream. It may return false even
// though Next would not wait.
func (s *Stream) More() bool {
	return s.err == nil && !s.isWhole && s.events != nil && s.events.Buffered()
}

func (s *Stream) nextConverted() ([]byte, error) {
	if len(s.converted) == 0 {
		s.err = io.EOF
		return nil, s.err
	}
	block := s.converted[0]
	s.converted = s.converted[1:]
	return block, nil
}

// look handles an event, which is a block to return, the end of the stream, an error or a block to
// skip.
func (s *Stream) look(event sse.Event) (use bool, err error) {
	data := event.Data
	switch {
	case event.Type == "error":
		return false, s.call.said(data)
	case len(data) <= len(" [DONE] ") && string(bytes.TrimSpace(data)) == "[DONE]":
		s.doneSeen = true
		return false, io.EOF
	case len(data) == 0 || event.Type == "ping":
		return false, nil
	case event.Unterminated && !validJSON(data):
		return false, s.end(io.EOF)
	}
	failed, err := s.progress.look(data)
	switch {
	case failed:
		return false, s.call.said(data)
	case err != nil:
		return false, s.call.found(CodeUnreadable, "the upstream sent "+err.Error(), err)
	}
	return true, nil
}

// end distinguishes a complete reply from a truncated one. Connection errors do not matter once
// everything has arrived, but a cancelled call stays cancelled.
func (s *Stream) end(err error) error {
	if s.progress.complete() && s.call.parent.Err() == nil && !errors.Is(err, sse.ErrTooLong) {
		return io.EOF
	}
	return s.call.broken(err)
}

// Unusable ends a stream after an Assembler has rejected a block with err. It returns an
// *upstream.Error as from Complete. From then on, Next returns the same error.
func (s *Stream) Unusable(err error) error {
	s.first, s.err = nil, s.call.assemblyFailed(err)
	return s.err
}

// Status returns the answer's HTTP status, 200 to 299.
func (s *Stream) Status() int { return s.call.resp.StatusCode }

// Close ends the call, whether or not it has finished. It may be called more than once.
func (s *Stream) Close() {
	if s.doneSeen {
		s.doneSeen = false
		s.call.drain()
	}
	s.call.close()
	s.first = nil
	if s.err == nil {
		s.err = errClosed
	}
}
