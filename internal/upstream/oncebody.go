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

// errSealed is returned to net/http if it reads the body after the request was given up.
var errSealed = errors.New("the request was abandoned")

// errTooLate is returned to net/http if it tries to send a request after its deadline.
var errTooLate = fmt.Errorf("the request came too late to be sent: %w", context.DeadlineExceeded)

// onceBody is a request body that tracks whether any of the request may have been sent, and that
// can be closed for good. net/http resends a POST with an Idempotency-Key if a reused connection
// breaks and the body can be read again. This body cannot be read again, because it is neither nil
// nor http.NoBody and the request has no GetBody.
type onceBody struct {
	mu       sync.Mutex
	bytes    []byte
	reader   bytes.Reader
	until    time.Time // sending the body must start by then; zero for no limit
	gated    bool      // a gatedConn tracks what is sent
	begun    bool
	written  bool
	sealed   bool
	reused   bool // its connection has carried other requests
	informed bool // the upstream has sent a 1xx answer
}

// newOnceBody returns a body whose sending cannot start after the deadline of ctx. It does not rely
// on the context's timer, which may fire too late if the process was paused.
func newOnceBody(ctx context.Context, body []byte) *onceBody {
	b := &onceBody{bytes: body}
	b.until, _ = ctx.Deadline()
	b.reader.Reset(body)
	return b
}

// trace tracks when the request is sent. An HTTP/2 connection has no gate to track this, so there
// the request counts as sent once its header block is written. net/http writes the header block
// before it reads the body.
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

// wroteHeaders is called by net/http after it has written the headers, possibly only to its buffer.
func (b *onceBody) wroteHeaders() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = b.written || !b.gated && !b.sealed
}

// beforeWrite must be called before each write to a gated connection until the body is being sent.
// After an error, nothing more of the request is written.
func (b *onceBody) beforeWrite() (begun bool, err error) {
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

// afterNoWrite reverts beforeWrite if the connection accepted none of the body and never will.
func (b *onceBody) afterNoWrite() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = false
}

// Read marks the request as written, unless a gated connection tracks that. It refuses to start the
// body after the deadline. Headers that were already sent are harmless, because without a body the
// request is incomplete.
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

// wholeRead reports whether net/http has read the whole body. The connection may still refuse to
// write it.
func (b *onceBody) wholeRead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun && !b.sealed && b.reader.Len() == 0
}

// late reports whether the time to start sending has passed. It also compares wall clocks, because
// the monotonic clock stops while the machine sleeps.
func (b *onceBody) late() bool {
	now := time.Now()
	return !b.until.IsZero() && (now.After(b.until) || now.Round(0).After(b.until.Round(0)))
}

// Close does nothing, because the caller owns the bytes.
func (b *onceBody) Close() error { return nil }

// seal closes the body for good and reports whether any of the request may have been sent. If it
// returns false, the upstream never gets a complete request, because a write that is about to start
// finds the body sealed, and headers alone are not enough.
func (b *onceBody) seal() (written bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed = true
	return b.written
}

// met reports whether the request's connection was reused, and whether the upstream sent a 1xx
// answer.
func (b *onceBody) met() (reused, informed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reused, b.informed
}
