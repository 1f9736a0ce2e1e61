package telemetry

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c reads and writes traceparent and tracestate. Baggage is left out on
// purpose: it would carry whatever a caller put into it to every subscriber.
type w3c = propagation.TraceContext

// The keys of a stored trace context.
const (
	keyParent = "traceparent"
	keyState  = "tracestate"
)

// HeaderCarrier lets a propagator read and write the headers of a NATS message.
// It writes lower-case keys (subject.HeaderTraceParent, subject.HeaderTraceState)
// and reads any case: nats.Header is case-sensitive, and publishers that use an
// HTTP carrier write "Traceparent". The header must not be nil to be written.
type HeaderCarrier nats.Header

// Get gives the first value of key, or "". The lower-case spelling wins.
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

// Set replaces the value of key, in whichever case it was written.
func (c HeaderCarrier) Set(key, value string) {
	for k := range c {
		if strings.EqualFold(k, key) {
			delete(c, k)
		}
	}
	c[strings.ToLower(key)] = []string{value}
}

// Keys lists the keys as they are written.
func (c HeaderCarrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	return keys
}

// maxTraceState is the longest tracestate that is passed on, in bytes: what the
// W3C asks of every implementation. It is the caller's text, and is in every event.
const maxTraceState = 512

// Inject gives the trace context of ctx as it is stored with a work item: at
// most the keys traceparent and tracestate, nil when ctx has no span. A tracestate
// above 512 bytes is left out.
func Inject(ctx context.Context) map[string]string {
	m := propagation.MapCarrier{}
	w3c{}.Inject(ctx, m)
	if len(m) == 0 {
		return nil
	}
	if len(m[keyState]) > maxTraceState {
		delete(m, keyState)
	}
	return m
}

// Within returns ctx in the trace that was stored: as it is when it belongs to that
// trace already, and else with the stored span as its own. So what another writer
// does to a job stays in the job's trace. An empty or unreadable parent leaves ctx
// as it is.
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

// Extract gives ctx with the trace context that Inject stored. Spans started
// from it continue that trace. A nil map or an unreadable value leaves ctx as
// it is.
func Extract(ctx context.Context, stored map[string]string) context.Context {
	return w3c{}.Extract(ctx, propagation.MapCarrier(stored))
}

// ExtractHeader gives ctx with the trace context of a NATS message. Unreadable
// values leave ctx as it is.
func ExtractHeader(ctx context.Context, h nats.Header) context.Context {
	return w3c{}.Extract(ctx, HeaderCarrier(h))
}
