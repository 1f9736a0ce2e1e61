package telemetry

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c reads and writes traceparent and tracestate. It deliberately omits baggage, which would
// expose a caller's values to every subscriber.
type w3c = propagation.TraceContext

// Keys of a stored trace context.
const (
	keyParent = "traceparent"
	keyState  = "tracestate"
)

// HeaderCarrier adapts the headers of a NATS message to a propagator. It writes lower-case keys
// (subject.HeaderTraceParent, subject.HeaderTraceState) and reads any case, because nats.Header is
// case-sensitive and publishers with an HTTP carrier write "Traceparent". Set needs a non-nil
// header.
type HeaderCarrier nats.Header

// Get returns the first value of key, or "". The lower-case spelling takes precedence.
func (c HeaderCarrier) Get(key string) string {
	if v := c[strings.ToLower(key)]; len(v) > 0 {
		return v[0]
	}
	for k, v := range c {
		if len(v) > 0 && strings.EqualFold(k, key) {
			return v[0]
		}
	}
	return ""
}

// Set replaces the value of key, in whatever case it is spelled.
func (c HeaderCarrier) Set(key, value string) {
	for k := range c {
		if strings.EqualFold(k, key) {
			delete(c, k)
		}
	}
	c[strings.ToLower(key)] = []string{value}
}

// Keys returns the keys as written.
func (c HeaderCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// maxTraceState bounds the tracestate passed on, in bytes. The W3C specification asks
// implementations to propagate at least this much. The text comes from callers and is stored in
// every event.
const maxTraceState = 512

// Inject returns the trace context of ctx for storage with a work item, under the keys traceparent
// and tracestate. It returns nil if ctx has no span. It drops a tracestate above 512 bytes.
func Inject(ctx context.Context) map[string]string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	m := propagation.MapCarrier{}
	w3c{}.Inject(ctx, m)
	if len(m[keyState]) > maxTraceState {
		delete(m, keyState)
	}
	return m
}

// Within returns ctx in the stored trace. Use it to keep a job in one trace when another writer
// changes the job. If ctx already belongs to that trace, or parent is empty or unreadable, Within
// returns ctx.
func Within(ctx context.Context, parent, state string) context.Context {
	if parent == "" {
		return ctx
	}
	stored := Extract(ctx, map[string]string{keyParent: parent, keyState: state})
	if trace.SpanContextFromContext(stored).TraceID() == trace.SpanContextFromContext(ctx).TraceID() {
		return ctx
	}
	return stored
}

// Extract returns ctx with the trace context that Inject stored. Spans started from it continue
// that trace. If stored is nil or unreadable, Extract returns ctx.
func Extract(ctx context.Context, stored map[string]string) context.Context {
	return w3c{}.Extract(ctx, propagation.MapCarrier(stored))
}

// ExtractHeader returns ctx with the trace context of a NATS message. If the headers are
// unreadable, it returns ctx.
func ExtractHeader(ctx context.Context, h nats.Header) context.Context {
	return w3c{}.Extract(ctx, HeaderCarrier(h))
}
