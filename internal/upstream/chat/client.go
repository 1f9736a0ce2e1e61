// Package chat is the client for POST /v1/chat/completions, whole or streamed,
// and knows as much of the JSON as that takes. It does not decode requests or
// replies into Go types, repeats only a call whose reused connection failed or
// whose HTTP/2 stream was refused, and publishes nothing.
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

// op names the call in errors.
const op = "chat"

// completions is the one path of the protocol.
const completions = "/v1/chat/completions"

// Options are the limits of each call. Zero values mean the defaults.
type Options struct {
	// FirstByte bounds the time from the start of a streamed call to the first
	// byte of its answer. Default 120 s.
	FirstByte time.Duration
	// Answer is the same for Complete, whose upstream sends nothing until the
	// whole reply is generated. Default 10 min.
	Answer time.Duration
	// Idle bounds the wait for more bytes, comments included, once the answer
	// has begun. Default 60 s.
	Idle time.Duration
	// Total bounds the whole call. Default 30 min.
	Total time.Duration
	// MaxEvent bounds one event of a stream, in bytes. Default 32 MiB.
	MaxEvent int
	// MaxReply bounds a whole reply, read or assembled, in bytes. Default 32 MiB.
	MaxReply int
}

// WithDefaults gives a copy with every default filled in.
func (o Options) WithDefaults() Options {
	o.FirstByte = cmp.Or(o.FirstByte, 120*time.Second)
	o.Answer = cmp.Or(o.Answer, 10*time.Minute)
	o.Idle = cmp.Or(o.Idle, 60*time.Second)
	o.Total = cmp.Or(o.Total, 30*time.Minute)
	o.MaxEvent = cmp.Or(o.MaxEvent, sse.DefaultMaxEvent)
	o.MaxReply = cmp.Or(o.MaxReply, upstream.DefaultMaxBody)
	return o
}

// Client calls one upstream. It is safe for concurrent use.
type Client struct {
	ep   upstream.Endpoint
	opts Options
}

// New makes a client for ep.
func New(ep *upstream.Endpoint, opts Options) *Client {
	c := &Client{ep: *ep, opts: opts.WithDefaults()}
	c.ep.MaxBody = int64(c.opts.MaxReply)
	return c
}

// Request is one chat completion to ask for.
type Request struct {
	// JobID is sent as Idempotency-Key, unless it is empty.
	JobID string
	// Body is the upstream's JSON, sent byte for byte. It must not change until
	// the reply or the stream is closed.
	Body []byte
	// OnResend is called before the request is sent a second time; it may be nil.
	OnResend func()
}

// Reply is a whole answer.
type Reply struct {
	// Raw is the upstream's JSON byte for byte, or what was put together from a
	// stream that was not asked for.
	Raw []byte
	// Assembled is true in the latter case.
	Assembled bool
	// Header holds the headers that matter to clients: request ids, rate limits.
	Header http.Header
	// Status is the HTTP status, 200 to 299.
	Status int
}

// Complete asks for a whole reply, as upstream.Endpoint.DoRepeatable does. Every
// error is an *upstream.Error: the upstream's own (Said), one of this package's
// codes, or a broken connection without a code. Written is false only when the
// upstream certainly did not process the request; Final when the same request would
// fail again; Scope says whom it is about, after the table in outcome.go.
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

// keptHeader gives the headers that are worth passing on.
func keptHeader(h http.Header) http.Header {
	kept := make(http.Header)
	for name, values := range h {
		lower := strings.ToLower(name)
		switch {
		case lower == "x-request-id", lower == "x-oneapi-request-id", lower == "x-generation-id",
			lower == "retry-after", lower == "retry-after-ms",
			strings.HasPrefix(lower, "x-ratelimit-"), strings.HasPrefix(lower, "openai-"):
			kept[name] = values
		}
	}
	return kept
}
