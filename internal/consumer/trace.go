package consumer

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

// tracerName is the instrumentation scope of the consumer's spans.
const tracerName = "github.com/genbus/genbus/internal/consumer"

func (c *Consumer) tracer() trace.Tracer {
	if c.Tracing.Provider == nil {
		return noop.NewTracerProvider().Tracer(tracerName)
	}
	return c.Tracing.Provider.Tracer(tracerName)
}

// startSpan begins a span for one upstream call of a job.
func (c *Consumer) startSpan(ctx context.Context, span string, name subject.TaskName, route, upstream string) (context.Context, trace.Span) {
	//nolint:spancheck // the caller ends it
	return c.tracer().Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("genbus.job_id", name.ID), attribute.String("genbus.tenant", name.Tenant),
		attribute.String("genbus.route", route), attribute.String("genbus.upstream", upstream)))
}

func (j *videoJob) span(ctx context.Context, span string) (context.Context, trace.Span) {
	return j.startSpan(ctx, span, j.name, j.Name, j.entry.Job.GetExecution().GetUpstream())
}

// endSpan ends a span with the code of its error. The message may quote the
// upstream, so it is left out.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, string(fault.CodeOf(err)))
	}
	span.End()
}

func jobAttrs(name subject.TaskName, route string, more ...any) []any {
	return append([]any{slog.String("job_id", name.ID), slog.String("tenant", name.Tenant), slog.String("route", route)}, more...)
}
