package consumer

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// A job has one span in each process that holds it, from the delivery of its work
// item until the process lets go of it, below the span of the request that made
// the job. Creates and calls are spans below that; what is frequent, the polls and
// the transitions, are events on it. A span is exported when it ends: a process
// that dies takes the span of its hold with it, and the next holder's stands
// beside it.

// tracerName is the instrumentation scope of the consumer's spans.
const tracerName = "github.com/genbus/genbus/internal/consumer"

func (c *Consumer) tracer() trace.Tracer {
	if c.Tracing.Provider == nil {
		return noop.NewTracerProvider().Tracer(tracerName)
	}
	return c.Tracing.Provider.Tracer(tracerName)
}

// startHold begins the span of a job that this process takes. It is that of the
// context, which ends with the process's work; endHold ends it.
func (c *Consumer) startHold(item *genbusv1.WorkItem, d delivery) context.Context {
	ctx := telemetry.Extract(c.working, item.GetTrace())
	ctx, _ = c.tracer().Start(ctx, "genbus."+item.GetKind(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // as above
		attribute.String("genbus.job_id", item.GetId()), attribute.String("genbus.tenant", item.GetTenant()),
		attribute.String("genbus.route", item.GetRoute()), attribute.String("genbus.model", item.GetModel()),
		attribute.Int64("genbus.delivery", int64(d.count))))
	return ctx
}

// endHold ends the span of a job, which is an error when the job has failed. The
// error's message may quote the upstream, so it is left out.
func endHold(ctx context.Context, last tasklog.Entry, out Outcome, polls int) {
	span := trace.SpanFromContext(ctx)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("genbus.outcome", out.word()), attribute.Int("genbus.polls", polls))
		if last.Job != nil && last.Job.GetError() != nil && last.Terminal() {
			span.SetStatus(codes.Error, last.Job.GetError().GetCode())
		}
	}
	span.End()
}

// word is the outcome in traces.
func (o Outcome) word() string {
	switch o.verb {
	case ack:
		return "ended"
	case nak:
		return "given_back"
	case drop:
		return "dropped"
	default:
		return "held"
	}
}

// traceCommit notes a transition that this process has committed.
func traceCommit(ctx context.Context, e tasklog.Entry) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.AddEvent("transition", trace.WithAttributes(
		attribute.String("genbus.phase", task.PhaseWord(e.Job.GetExecution().GetPhase())),
		attribute.Int64("genbus.version", int64(e.Version()))))
}

// polled counts a poll, and notes the first, those that changed something, and
// where they begin to fail or work again. Of the thousands that a long task takes,
// the others say nothing, and each would be held until the span ends.
func (j *videoJob) polled(outcome telemetry.PollOutcome) {
	j.metrics.PollEnded(outcome)
	j.pollsEnded++
	news := outcome == telemetry.PollChanged || j.lastPoll == "" || (outcome == telemetry.PollFailed) != (j.lastPoll == telemetry.PollFailed)
	j.lastPoll = outcome
	if span := trace.SpanFromContext(j.ctx); news && span.IsRecording() {
		span.AddEvent("poll", trace.WithAttributes(
			attribute.String("genbus.poll.outcome", string(outcome)), attribute.Int("genbus.poll.number", j.pollsEnded)))
	}
}

// startCall begins a span for one call of the upstream that may be paid for.
func (c *Consumer) startCall(ctx context.Context, span string, name subject.TaskName, route string, x *genbusv1.Execution) (context.Context, trace.Span) {
	return c.tracer().Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("genbus.job_id", name.ID), attribute.String("genbus.tenant", name.Tenant),
		attribute.String("genbus.route", route), attribute.String("genbus.upstream", x.GetUpstream()),
		attribute.Int64("genbus.attempt", int64(x.GetAttempt()))))
}

// endSpan ends a span with the code of its error, without the message.
func endSpan(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, string(fault.CodeOf(err)))
	}
	span.End()
}

// startAdmission begins the span of a message from the inbox.
func (in *intake) startAdmission(ctx context.Context, sequence uint64) (context.Context, trace.Span) {
	return in.tracer().Start(ctx, "genbus.inbox "+string(in.kind), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.Int64("genbus.sequence", int64(sequence))))
}

// endAdmission ends the span of a message from the inbox. A look at one that is to
// wait is left out: the same message is looked at again every second.
func endAdmission(span trace.Span, err error) {
	if f := fault.From(err); err != nil && natsreq.Again(f) && f.Code != fault.AcceptanceUnknown {
		return
	}
	endSpan(span, err)
}

func jobAttrs(name subject.TaskName, route string, more ...any) []any {
	return append([]any{slog.String("job_id", name.ID), slog.String("tenant", name.Tenant), slog.String("route", route)}, more...)
}
