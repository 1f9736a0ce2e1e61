package faultinject

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// bufferedAnswer is the length in bytes above which an answer is sent in chunks.
const bufferedAnswer = 64 << 10

// answer is the http.ResponseWriter of the sandbox. It keeps a short answer until finish and sends
// it with its length. A flushed or long answer is sent as it is written. After an error, nothing
// more is sent.
type answer struct {
	ctx  context.Context
	req  *http.Request
	plan plan
	out  outlet

	header  http.Header
	status  int
	body    bytes.Buffer // not sent yet
	copy    bytes.Buffer // everything written, if copied is set
	copied  bool
	hold    bool             // send nothing
	sent    func(status int) // called with the status line
	stream  bool             // the head has been sent
	chunked bool
	events  int
	err     error
}

func newAnswer(ctx context.Context, to io.Writer, r *http.Request, p plan) *answer {
	return &answer{ctx: ctx, req: r, plan: p, out: outlet{ctx: ctx, to: to, wait: p.wait, drip: p.drip}, header: http.Header{}}
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = cmp.Or(a.status, status) }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.copied {
		a.copy.Write(p)
	}
	a.body.Write(p)
	if !a.hold && (a.stream || a.body.Len() > bufferedAnswer) {
		a.pass()
	}
	return len(p), a.err
}

// FlushError sends the data kept so far. The sandbox calls it after each event of a stream.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	if a.hold {
		return a.ctx.Err()
	}
	a.pass()
	if a.plan.odd {
		a.chunk([]byte(oddEvents))
	}
	a.events++
	if a.events == a.plan.event() {
		a.middle()
	}
	return a.err
}

// produced returns everything that the handler has written.
func (a *answer) produced() []byte {
	if a.copied {
		return a.copy.Bytes()
	}
	return a.body.Bytes()
}

// pass sends the data kept so far, preceded by the head.
func (a *answer) pass() {
	if !a.stream {
		a.stream = true
		a.chunked = a.header.Get("Content-Length") == "" && a.req.ProtoAtLeast(1, 1)
		if a.chunked {
			a.header.Set("Transfer-Encoding", "chunked")
		}
		a.sendHead()
	}
	a.chunk(a.body.Bytes())
	a.body.Reset()
}

func (a *answer) chunk(p []byte) {
	if len(p) == 0 || a.req.Method == http.MethodHead {
		return
	}
	if a.chunked {
		p = fmt.Appendf(nil, "%x\r\n%s\r\n", len(p), p)
	}
	a.send(p)
}

func (a *answer) send(p []byte) {
	if a.err == nil {
		_, a.err = a.out.Write(p)
	}
}

func (a *answer) sendHead() {
	if a.req.Close || !a.req.ProtoAtLeast(1, 1) {
		a.header.Set("Connection", "close")
	}
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %03d %s\r\n", a.status, http.StatusText(a.status))
	_ = a.header.Write(&head) // never fails in memory
	head.WriteString("\r\n")
	if a.sent != nil {
		a.sent(a.status)
	}
	a.send(head.Bytes())
}

// finish sends the rest of the answer. It returns nil if the whole answer was written while the
// client was connected. A client that disconnects at the last byte has received everything.
func (a *answer) finish() error {
	a.WriteHeader(http.StatusOK)
	if a.err == nil && a.ctx.Err() != nil {
		a.err = errDisconnected
	}
	if a.plan.end == oversized {
		a.header.Del("Content-Length")
		a.pass()
	}
	if a.stream {
		a.endStream()
	} else {
		a.sendWhole()
	}
	return a.err
}

func (a *answer) endStream() {
	if a.plan.end != whole && a.events < a.plan.event() {
		a.middle()
	}
	if a.chunked {
		a.send([]byte("0\r\n\r\n"))
	}
}

func (a *answer) sendWhole() {
	body := a.body.Bytes()
	if a.header.Get("Content-Length") == "" && bodyAllowed(a.status) {
		a.header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	a.sendHead()
	if a.req.Method == http.MethodHead {
		return
	}
	if a.plan.end != whole {
		a.send(body[:a.plan.of(len(body))])
		a.middle()
		return
	}
	a.send(body)
}

// middle applies the plan in the middle of the answer.
func (a *answer) middle() {
	switch {
	case a.err != nil || a.plan.end == whole:
	case a.plan.end == cut:
		a.err = errCut
	case a.plan.end == stall:
		<-a.ctx.Done()
		a.err = errDisconnected
	default:
		a.oversize()
	}
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}
