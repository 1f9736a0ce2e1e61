package chat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/sse"
)

var errClosed = errors.New("chat: the stream is closed")

// Limits on the blocks that a stream keeps while it waits for its first choice.
const (
	maxHeld      = 16
	maxHeldBlock = 64 << 10
)

// Stream is a streamed reply. It is not safe for concurrent use.
type Stream struct {
	call      *call
	events    *sse.Reader
	progress  progress
	converted [][]byte // remaining chunks of a reply that arrived as one JSON answer
	isWhole   bool
	held      [][]byte        // read by hold, not yet returned
	empty     *upstream.Error // of a stream that ends without a choice; nil before the first event
	err       error           // sticky; io.EOF after a complete reply
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
	return s.hold()
}

// hold reads until the first choice, so that a stream without one fails before any block has been
// passed on.
func (s *Stream) hold() error {
	for {
		block, err := s.read()
		if err != nil {
			return err
		}
		if len(s.progress.choices) > 0 || len(s.held) == maxHeld || len(block) > maxHeldBlock {
			s.held = append(s.held, block)
			return nil
		}
		s.held = append(s.held, bytes.Clone(block))
	}
}

// Next returns the next block of the reply: the upstream's JSON byte for byte, which may contain
// line breaks. The block is valid until the next call. The error is io.EOF only if the reply is
// complete, that is, if the stream contained a choice, and [DONE] or a finish_reason for every
// choice. Any other error is an *upstream.Error as from Complete. After an error, every call
// returns the same error.
func (s *Stream) Next() ([]byte, error) {
	if len(s.held) > 0 {
		block := s.held[0]
		s.held = s.held[1:]
		return block, nil
	}
	return s.read()
}

func (s *Stream) read() ([]byte, error) {
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
	switch {
	case len(s.held) > 0:
		return true
	case s.err != nil || s.events == nil:
		return false
	}
	data := s.events.Buffered()
	return len(data) > len("{}") && !bytes.HasPrefix(data, heartbeat)
}

// heartbeat is how events begin that Next may skip.
var heartbeat = []byte(`{"type"`)

func (s *Stream) nextConverted() ([]byte, error) {
	if len(s.converted) == 0 {
		s.err = io.EOF
		return nil, s.err
	}
	block := s.converted[0]
	s.converted = s.converted[1:]
	return block, nil
}

// look handles an event, which is a block to return, the end of the stream, an error or an event to
// skip.
func (s *Stream) look(event sse.Event) (use bool, err error) {
	data := event.Data
	switch {
	case event.Type == "error" && !s.progress.complete():
		return false, s.call.reportedError(data)
	case len(data) <= len(" [DONE] ") && string(bytes.TrimSpace(data)) == "[DONE]":
		s.doneSeen = true
		return false, s.end(nil)
	case len(data) == 0:
		return false, nil
	case event.Unterminated && !validJSON(data):
		return false, s.end(io.EOF)
	case isHeartbeat(event.Type), event.Type == "error":
		s.skip(data)
		return false, nil
	case !isObject(data):
		if e := errorInList(data); e != nil && !s.progress.complete() {
			return false, s.call.reportedError(e)
		}
		s.skip(data)
		return false, nil
	}
	return s.lookAtObject(data)
}

func (s *Stream) lookAtObject(data []byte) (use bool, err error) {
	found, err := s.progress.look(data)
	switch {
	case err != nil:
		return false, s.call.found(CodeUnreadable, "the upstream sent "+err.Error(), err)
	case found == anError:
		return false, s.call.reportedError(s.progress.failure)
	case found == another:
		s.skip(data)
		return false, nil
	}
	s.note(data)
	return true, nil
}

// isHeartbeat reports whether events of a type only keep the connection open.
func isHeartbeat(event string) bool {
	switch event {
	case "ping", "heartbeat", "keepalive", "keep-alive", "keep_alive":
		return true
	}
	return false
}

// isObject reports whether data begins like a JSON object. A damaged object may hold a part of the
// reply, so it is not skipped.
func isObject(data []byte) bool {
	return data[0] == '{' || bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte{'{'})
}

// errorInList returns the body of an error in a list, as Google's compatible endpoint sends it, or
// nil.
func errorInList(data []byte) []byte {
	c := body.NewCursor(data)
	if c.Peek() != '[' {
		return nil
	}
	for range c.Elements() {
		var p progress
		if found, _ := p.look(c.Value()); found == anError {
			return p.failure
		}
	}
	return nil
}

// skip counts an event that the reply does not need.
func (s *Stream) skip(data []byte) {
	s.note(data)
	if s.call.onSkip != nil {
		s.call.onSkip()
	}
}

// note prepares for a stream that ends without a choice. One of its events may describe an error.
func (s *Stream) note(data []byte) {
	if len(s.progress.choices) == 0 && (s.empty == nil || !s.empty.Reported) {
		s.empty = s.call.empty(data)
	}
}

// end distinguishes a complete reply from an empty or a truncated one. err is nil after [DONE].
// Connection errors do not matter once everything has arrived, but a cancelled call stays
// cancelled.
func (s *Stream) end(err error) error {
	switch {
	case s.progress.complete() && s.call.parent.Err() == nil, err == nil && s.progress.answered:
		return io.EOF
	case err == nil, errors.Is(err, io.EOF) && !s.progress.answered && s.empty != nil:
		return cmp.Or(s.empty, s.call.empty(nil))
	}
	return s.call.broken(err)
}

// Unusable ends a stream after an Assembler has rejected a block with err. It returns an
// *upstream.Error as from Complete. From then on, Next returns the same error.
func (s *Stream) Unusable(err error) error {
	s.held, s.err = nil, s.call.assemblyFailed(err)
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
	s.held = nil
	if s.err == nil {
		s.err = errClosed
	}
}
