package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// errSealed is what net/http sees when it reads a request body after the
// outcome was decided.
var errSealed = errors.New("the request was abandoned")

// errTooLate is what net/http sees when it comes to write a request after its
// deadline.
var errTooLate = fmt.Errorf("the request came too late to be sent: %w", context.DeadlineExceeded)

// onceBody is a request body that knows whether any of the request may have
// left, and that can be closed for good. net/http resends a POST that carries
// an Idempotency-Key when a reused connection dies and the body can be had
// again; this one cannot: it is neither nil nor http.NoBody, and the request
// has no GetBody.
type onceBody struct {
	mu       sync.Mutex
	bytes    []byte
	reader   bytes.Reader
	until    time.Time // no byte leaves after it; zero for no limit
	gated    bool      // a gatedConn knows what leaves
	begun    bool
	written  bool
	sealed   bool
	reused   bool // its connection had carried other requests
	informed bool // the upstream has sent a 1xx
}

// newOnceBody makes a body that is not sent after the deadline of ctx, whatever
// becomes of the context's own timer: a process that was stopped for a while comes
// to the timer and to the connection in any order.
func newOnceBody(ctx context.Context, body []byte) *onceBody {
	b := &onceBody{bytes: body}
	b.until, _ = ctx.Deadline()
	b.reader.Reset(body)
	return b
}

// trace has the connection tell when the request leaves. Where it cannot, over
// HTTP/2, the request counts as written as soon as its header block is, which
// net/http writes before it first reads the body.
func (b *onceBody) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			c := gateOf(info.Conn)
			b.setConn(c != nil, info.Reused)
			if c != nil {
				c.request.Store(b)
			}
		},
		WroteHeaders: b.wroteHeaders,
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.informed = true
			return nil
		},
	})
}

func (b *onceBody) setConn(gated, reused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gated, b.reused = gated, reused
}

// wroteHeaders is called by net/http, which may only have buffered them.
func (b *onceBody) wroteHeaders() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = b.written || !b.gated && !b.sealed
}

// leave is called before each write to a gated connection, until the body has begun to
// leave. After an error no more of the request is ever written.
func (b *onceBody) leave() (begun bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.sealed:
		return false, errSealed
	case b.late():
		b.sealed, b.written = true, false
		return false, errTooLate
	}
	b.written = b.begun
	return b.begun, nil
}

// stay takes back leave: the connection took nothing of the body, and never will.
func (b *onceBody) stay() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = false
}

// Read marks the request as written, because its bytes are on their way from here on,
// unless a gated connection says when they leave. Where the first byte of the body
// would be too late there is no request: its headers alone are none.
func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	if !b.begun && b.late() {
		b.sealed, b.written = true, false
		return 0, errTooLate
	}
	b.begun, b.written = true, b.written || !b.gated
	return b.reader.Read(p)
}

// left reports whether all of the request is on its way. One whose first write is
// still to come may be refused by its connection.
func (b *onceBody) left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun && !b.sealed && b.reader.Len() == 0
}

// late reads the wall clock too: the monotonic clock stops while the machine
// sleeps.
func (b *onceBody) late() bool {
	now := time.Now()
	return !b.until.IsZero() && (now.After(b.until) || now.Round(0).After(b.until.Round(0)))
}

// Close does nothing: the bytes belong to the caller.
func (b *onceBody) Close() error { return nil }

// seal ends the body and reports whether any of the request may have left.
// After it returned false, none ever will: a write that was about to start
// finds the body sealed, and a request without its body is none.
func (b *onceBody) seal() (written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	return b.written
}

// met reports whether the request had a connection that was reused, and whether the
// upstream has informed about it (1xx).
func (b *onceBody) met() (reused, informed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reused, b.informed
}
