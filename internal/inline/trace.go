package inline

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/genbus/genbus/internal/errcode"
)

const tracerName = "github.com/genbus/genbus/internal/inline"

func newTracer(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		provider = noop.NewTracerProvider()
	}
	return provider.Tracer(tracerName)
}

// traced starts a span for the upstream call, as a child of the span of the caller's request. It
// has the same name as for queued chats.
func (c *call) traced(ctx context.Context) context.Context {
	ctx, _ = c.r.tracer.Start(ctx, "genbus.chat.call", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes( //nolint:spancheck // endTrace ends it
		attribute.String("genbus.job_id", c.checked.ID), attribute.String("genbus.tenant", c.req.Tenant),
		attribute.String("genbus.route", c.route.Name), attribute.String("genbus.model", c.checked.Model)))
	return ctx
}

// endTrace ends the span. If the call failed, it sets an error status with the error code.
func (c *call) endTrace() {
	span := trace.SpanFromContext(c.ctx)
	if c.fault != nil {
		span.SetStatus(codes.Error, string(errcode.CodeOf(c.fault)))
	}
	span.End()
}
