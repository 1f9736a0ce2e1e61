package api

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// tracerName is the instrumentation scope of the spans of NATS requests. HTTP and
// gRPC have those of their libraries.
const tracerName = "github.com/genbus/genbus/internal/api"

// traced begins the span of one NATS request.
func (c *calls) traced(ctx context.Context, subject string) (context.Context, trace.Span) {
	return c.tracer.Start(ctx, "genbus.call", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
}
