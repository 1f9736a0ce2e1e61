package upstream

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptrace"
	"sync"
)

// errSealed is what net/http sees when it reads a request body after the
// outcome was decided.
var errSealed = errors.New("the request was given up")

// onceBody is a request body that knows whether any of the request may have
// left, and that can be closed for good. net/http resends a POST that carries
// an Idempotency-Key when a reused connection dies and the body can be had
// again; this one cannot: it is neither nil nor http.NoBody, and the request
// has no GetBody.
type onceBody struct {
	mu      sync.Mutex
	bytes   []byte
	reader  bytes.Reader
	written bool
	sealed  bool
}

func newOnceBody(body []byte) *onceBody {
	b := &onceBody{bytes: body}
	b.reader.Reset(body)
	return b
}

// trace marks the body as written as soon as the header block is, which
// net/http does before it first reads the body.
func (b *onceBody) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: b.markWritten})
}

func (b *onceBody) markWritten() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = true
}

// Read marks the request as written, because its bytes are on their way from
// here on.
func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	b.written = true
	return b.reader.Read(p)
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
