package hold

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
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
func (h *Holder) startSpan(item *genbusv1.WorkItem, d Delivery) context.Context {
	ctx := telemetry.Extract(h.Working, item.GetTrace())
	ctx, _ = Tracer(h.Tracing).Start(ctx, "genbus."+item.GetKind(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // as above
		attribute.String("genbus.job_id", item.GetId()), attribute.String("genbus.tenant", item.GetTenant()),
		attribute.String("genbus.route", item.GetRoute()), attribute.String("genbus.model", item.GetModel()),
		attribute.Int64("genbus.delivery", int64(d.Count))))
	return ctx
}

// endSpan ends the span of a hold, which is an error when the job has failed. The error's
// message may quote the upstream, so it is left out.
func (j *Job) endSpan(outcome error, polls int) {
	span := j.Span()
	if span.IsRecording() {
		span.SetAttributes(attribute.String("genbus.outcome", word(outcome)), attribute.Int("genbus.polls", polls))
		if j.entry.Job != nil && j.entry.Job.GetError() != nil && j.entry.Terminal() {
			span.SetStatus(codes.Error, j.entry.Job.GetError().GetCode())
		}
	}
	span.End()
}

// traceCommit notes a transition that this process has committed.
func (j *Job) traceCommit(e joblog.Entry) {
	if span := j.Span(); span.IsRecording() {
		span.AddEvent("transition", trace.WithAttributes(
			attribute.String("genbus.phase", task.PhaseWord(e.Job.GetExecution().GetPhase())),
			attribute.Int64("genbus.version", int64(e.Version()))))
	}
}

// StartCall begins a span for one call of the upstream that may be paid for.
func (j *Job) StartCall(ctx context.Context, span string) (context.Context, trace.Span) {
	x := j.entry.Job.GetExecution()
	return Tracer(j.holder.Tracing).Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("genbus.job_id", j.name.ID), attribute.String("genbus.tenant", j.name.Tenant),
		attribute.String("genbus.route", j.route), attribute.String("genbus.upstream", x.GetUpstream()),
		attribute.Int64("genbus.attempt", int64(x.GetAttempt()))))
}

// EndSpan ends a span with the code of its error, without the message.
func EndSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, string(errcode.CodeOf(err)))
	}
	span.End()
}
