// Package chat is a client for POST /v1/chat/completions, with whole or streamed replies. It
// inspects only the JSON that it must understand, and does not decode requests or replies into Go
// types. It repeats a call only if a reused connection failed or the upstream refused the HTTP/2
// stream.
package chat

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/sse"
)

const op = "chat"

// Path is the path of all calls, for upstream.Endpoint.URL.
const Path = "/v1/chat/completions"

// Options holds the limits of each call. A zero field selects its default.
type Options struct {
	// FirstByte bounds the time from the start of a streamed call to the first byte of its answer.
	// Default 10 min.
	FirstByte time.Duration
	// Answer replaces FirstByte in Complete, because the upstream sends nothing until it has
	// generated the whole reply. Default Total.
	Answer time.Duration
	// Idle bounds the time without any bytes once the answer has started. Comments count as bytes.
	// Default 10 min.
	Idle time.Duration
	// Total bounds the whole call. Default 30 min.
	Total time.Duration
	// MaxEvent bounds the size of a stream event in bytes. Default 32 MiB.
	MaxEvent int
	// MaxReply bounds the size of a whole reply in bytes, whether read or assembled. Default 32
	// MiB.
	MaxReply int
}

// WithDefaults returns a copy with the defaults filled in.
func (o Options) WithDefaults() Options {
	o.FirstByte = cmp.Or(o.FirstByte, 10*time.Minute)
	o.Idle = cmp.Or(o.Idle, 10*time.Minute)
	o.Total = cmp.Or(o.Total, 30*time.Minute)
	o.Answer = cmp.Or(o.Answer, o.Total)
	o.MaxEvent = cmp.Or(o.MaxEvent, sse.DefaultMaxEvent)
	o.MaxReply = cmp.Or(o.MaxReply, upstream.DefaultMaxBody)
	return o
}

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	ep   upstream.Endpoint
	opts Options
}

// New returns a client for ep.
func New(ep *upstream.Endpoint, opts Options) *Client {
	c := &Client{ep: *ep, opts: opts.WithDefaults()}
	c.ep.MaxBody = int64(c.opts.MaxReply)
	return c
}

// Request is a chat completion request.
type Request struct {
	// JobID is sent as Idempotency-Key unless it is empty.
	JobID string
	// Body is the JSON for the upstream, sent byte for byte. It must not change until Complete
	// returns or the stream is closed.
	Body []byte
	// OnResend, if not nil, is called before the request is sent a second time.
	OnResend func()
	// OnSkip, if not nil, is called for each skipped event, such as a heartbeat.
	OnSkip func()
}

// Reply is a whole answer.
type Reply struct {
	// Raw is the upstream's JSON byte for byte, or the reply assembled from an unexpected stream.
	Raw []byte
	// Assembled is true if Raw was assembled.
	Assembled bool
	// Header holds the headers that matter to clients: request IDs and rate limits.
	Header http.Header
	// Status is the HTTP status, 200 to 299.
	Status int
}

// Complete requests a whole reply, using upstream.Endpoint.DoRepeatable. Every error is an
// *upstream.Error. It was reported by the upstream (Reported), has a code of this package, or
// describes a broken connection and has no code. Written is false only if the upstream certainly
// did not process the request. Final is true if the same request would fail again. Scope is set by
// the table in outcome.go.
func (c *Client) Complete(ctx context.Context, req Request) (*Reply, error) {
	call, err := c.open(ctx, req, "application/json", limits{c.opts.Answer, c.opts.Idle, c.opts.Total})
	if err != nil {
		return nil, err
	}
	defer call.close()
	reply := &Reply{Header: keptHeader(call.resp.Header), Status: call.resp.StatusCode}
	switch kind, err := call.sniff(); {
	case err != nil:
		return nil, err
	case kind == kindJSON:
		reply.Raw, err = call.readReply()
		if err != nil {
			return nil, err
		}
		return reply, nil
	case kind == kindEvents:
		reply.Assembled = true
		reply.Raw, err = call.assemble()
		if err != nil {
			return nil, err
		}
		return reply, nil
	default:
		return nil, call.unreadable()
	}
}

// keptHeader returns the headers of an answer that matter to clients. net/http has canonicalized
// their names.
func keptHeader(h http.Header) http.Header {
	kept := make(http.Header)
	for name, values := range h {
		switch {
		case name == "X-Request-Id", name == "X-Oneapi-Request-Id", name == "X-Generation-Id", name == "Retry-After", name == "Retry-After-Ms",
			strings.HasPrefix(name, "X-Ratelimit-"), strings.HasPrefix(name, "Openai-"):
			kept[name] = values
		}
	}
	return kept
}
