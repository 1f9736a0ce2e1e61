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

// A job has one span in each process that holds it, from the delivery of its work item
// until the process lets go of it, below the span of the request that made the job.
// Creates and calls are spans below that; what is frequent, the polls and the transitions,
// are events on it. A span is exported when it ends: a process that dies takes the span of
// its hold with it, and the next holder's is next to it.

// tracerName is the instrumentation scope of the consumer's spans.
const tracerName = "github.com/genbus/genbus/internal/consumer"

// Tracer is the consumer's; without a provider its spans record nothing.
func Tracer(t telemetry.Tracing) trace.Tracer {
	if t.Provider == nil {
		return noop.NewTracerProvider().Tracer(tracerName)
	}
	return t.Provider.Tracer(tracerName)
}

// startSpan begins the span of a job that this process takes. It is that of the context,
// which ends with the process's work; endSpan ends it.
func startSpan(ctx context.Context, t telemetry.Tracing, item *genbusv1.WorkItem, d Delivery) context.Context {
	ctx, _ = Tracer(t).Start(telemetry.Extract(ctx, item.GetTrace()), "genbus."+item.GetKind(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // as above
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
