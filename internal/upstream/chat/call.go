package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/sse"
)

const (
	// maxErrorBody limits the bytes read from an answer that is not a reply.
	maxErrorBody = 64 << 10
	// maxFirstRead limits the length of an answer that is read into a single buffer.
	maxFirstRead = 64 << 10
	// maxBlank limits the white space before an answer.
	maxBlank = 4 << 10
	// drainTime limits how long Stream.Close waits for the end of an answer after [DONE], so that
	// the next call can reuse the connection.
	drainTime = 100 * time.Millisecond
)

var byteOrderMark = []byte("\xEF\xBB\xBF")

// call is a request whose answer has started. Its watch limits how long reading the answer's body
// may take.
type call struct {
	client *Client
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  *watch
	resp   *http.Response
	head   []byte // read by sniff, not yet returned
	onSkip func()
}

// open sends req. It fails if no answer arrives or if the answer's status is not 2xx.
func (c *Client) open(parent context.Context, req Request, accept string, limit limits) (*call, error) {
	ctx, cancel := context.WithCancelCause(parent)
	cl := &call{client: c, parent: parent, ctx: ctx, cancel: cancel, onSkip: req.OnSkip}
	cl.watch = newWatch(c.ep.Name, limit, cancel)
	var err error
	cl.resp, err = c.ep.DoRepeatable(ctx, op, req.OnResend, func(ctx context.Context) (*http.Request, error) {
		httpReq, err := c.ep.NewRequest(ctx, http.MethodPost, Path, req.Body)
		if err != nil {
			return nil, err
		}
		httpReq.Header.Set("Accept", accept)
		if req.JobID != "" {
			httpReq.Header.Set("Idempotency-Key", req.JobID)
		}
		return httpReq, nil
	})
	if err != nil {
		e := upstream.AsError(op, err)
		if !e.Final { // a final error means that the request could not be built
			e = cl.explain(e)
		}
		cl.close()
		return nil, e
	}
	if cl.resp.StatusCode < 200 || cl.resp.StatusCode > 299 {
		err = cl.refusal()
		cl.close()
		return nil, err
	}
	return cl, nil
}

// Read reads the answer's body and reports progress to the watch.
func (cl *call) Read(p []byte) (int, error) {
	if len(cl.head) > 0 {
		n := copy(p, cl.head)
		cl.head = cl.head[n:]
		return n, nil
	}
	cl.watch.before()
	n, err := cl.resp.Body.Read(p)
	cl.watch.after(n > 0)
	return n, err
}

// Close makes call an io.ReadCloser. It does nothing, because the close method ends the call.
func (cl *call) Close() error { return nil }

func (cl *call) close() {
	cl.watch.stop()
	if cl.resp != nil {
		// The answer has been read or is not wanted, so its error does not matter.
		_ = cl.resp.Body.Close()
	}
	cl.cancel(nil)
}

// drain reads the rest of the body after the last event. Normally there is none.
func (cl *call) drain() {
	timer := time.AfterFunc(drainTime, func() { cl.cancel(nil) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, cl.resp.Body, maxBlank)
}

// readAll reads the rest of the answer, up to MaxReply.
func (cl *call) readAll() ([]byte, error) {
	size := max(len(cl.head), int(min(cl.resp.ContentLength, int64(cl.client.opts.MaxReply)))) + bytes.MinRead
	start := cl.head
	if cap(start) < size {
		start = append(make([]byte, 0, size), cl.head...)
	}
	cl.head = nil
	rest := *cl.resp
	rest.Body = cl
	body, err := cl.client.ep.AppendBody(op, &rest, start)
	if err == nil {
		return body, nil
	}
	e := upstream.AsError(op, err)
	switch {
	case e.Err == nil:
		e.Code = CodeTooLarge
	case errors.Is(e.Err, upstream.ErrBadGzip):
		e.Code = CodeUnreadable
	}
	return nil, cl.explain(e)
}

// readReply reads a JSON answer and checks that it is a chat completion.
func (cl *call) readReply() ([]byte, error) {
	reply, err := cl.readAll()
	if err != nil {
		return nil, err
	}
	var p progress
	found, err := p.look(reply)
	switch {
	case found == anError:
		return nil, cl.reportedError(p.failure)
	case err != nil || !validJSON(reply):
		return nil, cl.found(CodeUnreadable, "the upstream's answer is not valid JSON", err)
	case !p.answered:
		return nil, cl.empty(reply)
	}
	return reply, nil
}

// assemble returns the reply from an answer that is a stream.
func (cl *call) assemble() ([]byte, error) {
	s := &Stream{call: cl, events: sse.NewReader(cl, cl.client.opts.MaxEvent)}
	a := NewAssembler(cl.client.opts.MaxReply)
	for {
		b, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := a.Add(b); err != nil {
			return nil, cl.assemblyFailed(err)
		}
	}
	reply, err := a.Reply()
	if err != nil {
		return nil, cl.assemblyFailed(err)
	}
	return reply, nil
}

func (cl *call) assemblyFailed(err error) *upstream.Error {
	code := CodeUnreadable
	if errors.Is(err, errReplyTooLarge) {
		code = CodeTooLarge
	}
	return cl.found(code, "the upstream's stream cannot be assembled: "+err.Error(), err)
}

type kind int

const (
	kindEvents kind = iota
	kindJSON
	kindOther
)

// sniff detects the kind of answer from its first byte. The media type is unreliable, because some
// servers label streams as JSON or JSON as a stream.
func (cl *call) sniff() (kind, error) {
	buf := make([]byte, 0, cl.firstRead())
	for {
		if cap(buf)-len(buf) < bytes.MinRead {
			buf = slices.Grow(buf, bytes.MinRead)
		}
		n, err := cl.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		cl.head = nil
		text := bytes.TrimLeft(bytes.TrimPrefix(buf, byteOrderMark), " \t\r\n")
		switch {
		case err == nil && bytes.HasPrefix(byteOrderMark, buf):
		case len(text) > 0 && text[0] == '{':
			cl.head = text
			return kindJSON, nil
		case len(text) > 0 || len(buf) > maxBlank || errors.Is(err, io.EOF):
			cl.head = buf
			return cl.textKind(text), nil
		case err != nil:
			return kindOther, cl.broken(err)
		}
	}
}

// firstRead returns the size of sniff's buffer. It is large enough for a short answer with a
// Content-Length, so that the answer need not be copied.
func (cl *call) firstRead() int {
	if n := cl.resp.ContentLength; n > 0 && n <= min(maxFirstRead, int64(cl.client.opts.MaxReply)) {
		return int(n) + bytes.MinRead
	}
	return bytes.MinRead
}

// textKind distinguishes streams from other text. It trusts Content-Type text/event-stream unless
// the text is in an unsupported encoding or starts like HTML.
func (cl *call) textKind(text []byte) kind {
	mediaType, _, _ := mime.ParseMediaType(cl.resp.Header.Get("Content-Type"))
	if mediaType == "text/event-stream" && upstream.Encoding(cl.resp.Header) == "" && (len(text) == 0 || text[0] != '<') {
		return kindEvents
	}
	for _, field := range []string{":", "data", "event", "id", "retry"} {
		if bytes.HasPrefix(text, []byte(field)) || len(text) > 0 && bytes.HasPrefix([]byte(field), text) {
			return kindEvents
		}
	}
	return kindOther
}

func (cl *call) refusal() *upstream.Error {
	// A read error is ignored: the status decides, and the beginning of the body is enough.
	body, _ := io.ReadAll(io.LimitReader(cl, maxErrorBody))
	said, _ := cl.client.ep.ResponseError(op, cl.resp, body)
	e := judge(said)
	switch cl.resp.Header.Get("X-Should-Retry") {
	case "true":
		e.Final = false
	case "false":
		e.Final, e.Reported = true, true // a proxy would not send this
	}
	return e
}

// reportedError returns the error that the upstream reports in a body or block.
func (cl *call) reportedError(body []byte) *upstream.Error {
	e, readable := cl.client.ep.ResponseError(op, cl.resp, body)
	if len(body) == 0 || !readable && validJSON(body) {
		e.Message = "the upstream reported an unspecified error"
	}
	e.Reported = true
	return judge(e)
}

// empty returns the error for an answer without a choice: the error that text describes, or an
// unreadable answer.
func (cl *call) empty(text []byte) *upstream.Error {
	if e, readable := upstream.ParseErrorBody(text); readable && e.Code+e.Message != "" {
		return cl.reportedError(text)
	}
	return cl.found(CodeUnreadable, "the upstream's answer has no choices", nil)
}

// found returns an error that genbus detected. cause may be nil.
func (cl *call) found(code, message string, cause error) *upstream.Error {
	return judge(&upstream.Error{
		Op: op, Code: code, Message: message, HTTPStatus: cl.resp.StatusCode,
		RequestID: upstream.RequestID(cl.resp.Header), Written: true, Err: cause,
	})
}

// unreadable returns the error for an answer that is neither JSON nor a stream.
func (cl *call) unreadable() *upstream.Error {
	body, _ := io.ReadAll(io.LimitReader(cl, maxErrorBody))
	e, readable := cl.client.ep.ResponseError(op, cl.resp, body)
	if readable && bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) { // an error in a list
		return judge(e)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		e.Message = "nothing"
	}
	e.Code, e.Reported = CodeUnreadable, false
	declared := upstream.Declared(cl.resp.Header)
	e.Message = "the upstream answered neither JSON nor a stream" + declared + ": " + strings.TrimSuffix(e.Message, declared)
	return judge(e)
}

func (cl *call) broken(err error) *upstream.Error {
	code, message := CodeStreamTruncated, "the upstream ended the stream early"
	switch {
	case errors.Is(err, sse.ErrTooLong):
		code, message = CodeTooLarge, err.Error()
	case errors.Is(err, upstream.ErrBadGzip):
		code, message = CodeUnreadable, err.Error()
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // io.EOF itself means a complete stream
	default:
		message += ": " + upstream.Reason(err)
	}
	return cl.explain(cl.found(code, message, err))
}

// explain replaces e's reason with the cause of the call's cancellation, if any, and judges e.
func (cl *call) explain(e *upstream.Error) *upstream.Error {
	cause := context.Cause(cl.ctx)
	if late, ok := errors.AsType[*timeoutError](cause); ok {
		e.Code, e.Message, e.Err = late.code, late.text, late
	} else if cause != nil && cl.parent.Err() != nil {
		e.Code, e.Message, e.Err = CodeCancelled, "the call was abandoned: "+cause.Error(), cause
	}
	return judge(e)
}
