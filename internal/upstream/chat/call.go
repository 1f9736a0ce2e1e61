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

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/sse"
)

const (
	// maxErrorBody is as much as is read of an answer that is no reply.
	maxErrorBody = 64 << 10
	// maxFirstRead is the longest answer that is read into one buffer from its first byte on.
	maxFirstRead = 64 << 10
	// maxBlank is how much white space may stand before an answer.
	maxBlank = 4 << 10
	// drainTime is how long Close waits for the end of an answer whose [DONE]
	// has been seen, to have the connection back for the next call.
	drainTime = 100 * time.Millisecond
)

var byteOrderMark = []byte("\xEF\xBB\xBF")

// call is one request whose answer has begun. It reads the answer's body under
// the call's watch.
type call struct {
	client *Client
	parent context.Context
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  *watch
	resp   *http.Response
	head   []byte // read to see what the answer is, not yet given out
}

// open sends req. It fails when no answer came or when its status is a refusal.
func (c *Client) open(parent context.Context, req Request, accept string, limit limits) (*call, error) {
	ctx, cancel := context.WithCancelCause(parent)
	cl := &call{client: c, parent: parent, ctx: ctx, cancel: cancel}
	cl.watch = newWatch(c.ep.Name, limit, cancel)
	var err error
	cl.resp, err = c.ep.DoRepeatable(ctx, op, req.OnResend, func(ctx context.Context) (*http.Request, error) {
		httpReq, err := c.ep.NewRequest(ctx, http.MethodPost, completions, req.Body)
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
		if !e.Final { // else the request could not be built
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

// Read gives the answer's bytes, and keeps the watch informed.
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

// Close makes a call an io.ReadCloser; what must be closed is the call itself.
func (cl *call) Close() error { return nil }

func (cl *call) close() {
	cl.watch.stop()
	if cl.resp != nil {
		// The answer is over or no longer wanted: nothing can follow from an error.
		_ = cl.resp.Body.Close()
	}
	cl.cancel(nil)
}

// drain reads what follows the last event, which is nothing on a good day.
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

// readReply reads a JSON answer and makes sure that it is a chat completion.
func (cl *call) readReply() ([]byte, error) {
	reply, err := cl.readAll()
	if err != nil {
		return nil, err
	}
	var p progress
	failed, err := p.look(reply)
	switch {
	case failed:
		return nil, cl.said(reply)
	case err != nil || !validJSON(reply):
		return nil, cl.found(CodeUnreadable, "the upstream's answer is not valid JSON", err)
	case body.FindMember(reply, "choices") == nil:
		return nil, cl.found(CodeUnreadable, "the upstream's answer has no choices", nil)
	}
	return reply, nil
}

// assemble makes a reply of an answer that came as a stream.
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

// kind is what an answer turned out to be.
type kind int

const (
	kindEvents kind = iota
	kindJSON
	kindOther
)

// sniff finds out what the answer is, from its first byte rather than from its
// media type: servers send streams as JSON and JSON as streams.
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

// firstRead is how much is read to see what an answer is: all of a short one that says how long
// it is, so that it stays where it was read.
func (cl *call) firstRead() int {
	if n := cl.resp.ContentLength; n > 0 && n <= min(maxFirstRead, int64(cl.client.opts.MaxReply)) {
		return int(n) + 2*bytes.MinRead
	}
	return bytes.MinRead
}

// textKind tells a stream from other text. An answer that says it is a stream
// is believed, unless it is one in an encoding that nothing here reads.
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

// refusal reads an answer whose status is not a success.
func (cl *call) refusal() *upstream.Error {
	// A body that breaks off is as good as its beginning: the status decides.
	body, _ := io.ReadAll(io.LimitReader(cl, maxErrorBody))
	said, _ := cl.client.ep.ResponseError(op, cl.resp, body)
	e := judge(said)
	switch cl.resp.Header.Get("X-Should-Retry") {
	case "true":
		e.Final = false
	case "false":
		e.Final, e.Said = true, true // no proxy says this
	}
	return e
}

// said makes an error of a body or block in which the upstream reports one.
func (cl *call) said(body []byte) *upstream.Error {
	e, readable := cl.client.ep.ResponseError(op, cl.resp, body)
	if len(body) == 0 || !readable && validJSON(body) {
		e.Message = "the upstream reported an unspecified error"
	}
	e.Said = true
	return judge(e)
}

// found makes an error of what the upstream did not say. cause may be nil.
func (cl *call) found(code, message string, cause error) *upstream.Error {
	return judge(&upstream.Error{
		Op: op, Code: code, Message: message, HTTPStatus: cl.resp.StatusCode,
		RequestID: upstream.RequestID(cl.resp.Header), Written: true, Err: cause,
	})
}

// unreadable reports an answer that is neither JSON nor a stream.
func (cl *call) unreadable() *upstream.Error {
	body, _ := io.ReadAll(io.LimitReader(cl, maxErrorBody))
	e, _ := cl.client.ep.ResponseError(op, cl.resp, body)
	if len(bytes.TrimSpace(body)) == 0 {
		e.Message = "nothing"
	}
	e.Code, e.Said = CodeUnreadable, false
	declared := upstream.Declared(cl.resp.Header)
	e.Message = "the upstream answered neither JSON nor a stream" + declared + ": " + strings.TrimSuffix(e.Message, declared)
	return judge(e)
}

// broken reports an answer that ended before its time.
func (cl *call) broken(err error) *upstream.Error {
	code, message := CodeStreamTruncated, "the upstream ended the stream early"
	switch {
	case errors.Is(err, sse.ErrTooLong):
		code, message = CodeTooLarge, err.Error()
	case errors.Is(err, upstream.ErrBadGzip):
		code, message = CodeUnreadable, err.Error()
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF // io.EOF itself is the good end
	default:
		message += ": " + upstream.Reason(err)
	}
	return cl.explain(cl.found(code, message, err))
}

// explain gives e the reason why the call was cancelled, if it was, and judges
// it.
func (cl *call) explain(e *upstream.Error) *upstream.Error {
	cause := context.Cause(cl.ctx)
	if late, ok := errors.AsType[*timeoutError](cause); ok {
		e.Code, e.Message, e.Err = late.code, late.text, late
	} else if cause != nil && cl.parent.Err() != nil {
		e.Code, e.Message, e.Err = CodeCancelled, "the call was abandoned: "+cause.Error(), cause
	}
	return judge(e)
}
