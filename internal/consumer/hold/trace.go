package hold

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// A job has one span in each process that holds it, below the span of the request that created the
// job. Creates and calls are child spans. Polls and transitions are frequent, so they are span
// events. The span of a process that dies is lost.

const tracerName = "github.com/genbus/genbus/internal/consumer"

// Tracer returns the consumer's tracer. Without a provider its spans record nothing.
func Tracer(t telemetry.Tracing) trace.Tracer {
	if t.Provider == nil {
		return noop.NewTracerProvider().Tracer(tracerName)
	}
	return t.Provider.Tracer(tracerName)
}

// startSpan starts the span of a hold, in the returned context. endSpan ends it.
func startSpan(ctx context.Context, t telemetry.Tracing, item *genbusv1.WorkItem, d Delivery) context.Context {
	ctx, _ = Tracer(t).Start(telemetry.Extract(ctx, item.GetTrace()), "genbus."+item.GetKind(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // endSpan ends it
		attribute.String("genbus.job_id", item.GetId()), attribute.String("genbus.tenant", item.GetTenant()),
		attribute.String("genbus.route", item.GetRoute()), attribute.String("genbus.model", item.GetModel()),
		attribute.Int64("genbus.delivery", int64(d.Count))))
	return ctx
}

// EndSpan ends a span with the code of its error, without the message.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, string(errcode.CodeOf(err)))
	}
	span.End()
}
