package hold

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Message is the message of a held job, by its last delivery: it is extended until it is
// settled. It knows which job it is of, and nothing of the job's state. It is safe for
// concurrent use.
type Message struct {
	parts   *Options
	metrics *telemetry.RouteMetrics
	name    subject.JobName
	route   string
	ctx     context.Context //nolint:containedctx // the process's work, with the span of this hold

	mu      sync.Mutex
	last    Delivery
	settled bool
}

// Context ends with the process's work, and has the span of this hold.
func (m *Message) Context() context.Context { return m.ctx }

// Delivery is the last one.
func (m *Message) Delivery() Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Extend extends the AckWait until the message is settled.
func (m *Message) Extend() {
	m.mu.Lock()
	d, settled := m.last, m.settled
	m.mu.Unlock()
	if settled {
		return
	}
	if err := d.Extend(); err != nil {
		m.logger().Debug("could not extend ack deadline", telemetry.KeyError, err)
	}
}

// redelivered replaces the delivery of the message. Of two items of one job it shows when
// the job is released which one is stale.
func (m *Message) redelivered(d Delivery) {
	m.mu.Lock()
	same := m.last.Seq == d.Seq
	if same {
		m.last = d
	}
	m.mu.Unlock()
	if !same {
		m.sendSettlement(d, ReturnAfter(joblog.SecondLook))
	}
}

// settle ends the extensions.
func (m *Message) settle(outcome error) {
	m.mu.Lock()
	m.settled = true
	d := m.last
	m.mu.Unlock()
	m.sendSettlement(d, outcome)
}

func (m *Message) sendSettlement(d Delivery, outcome error) {
	if err := d.Settle(outcome); err != nil {
		m.logger().Warn("could not settle message, awaiting redelivery", telemetry.KeyError, err)
	}
}

// logger names the job in every record.
func (m *Message) logger() *slog.Logger {
	return m.parts.Logger.With(telemetry.JobAttrs(m.name, m.route)...)
}

// Span is the one of this hold.
func (m *Message) Span() trace.Span { return trace.SpanFromContext(m.ctx) }

// StartCall begins a span for one call of the upstream that may be paid for.
func (m *Message) StartCall(ctx context.Context, span string, x *genbusv1.Execution) (context.Context, trace.Span) {
	return Tracer(m.parts.Tracing).Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("genbus.job_id", m.name.ID), attribute.String("genbus.tenant", m.name.Tenant),
		attribute.String("genbus.route", m.route), attribute.String("genbus.upstream", x.GetUpstream()),
		attribute.Int64("genbus.attempt", int64(x.GetAttempt()))))
}

// traceCommit notes a transition that this process has committed.
func (m *Message) traceCommit(e joblog.Entry) {
	if span := m.Span(); span.IsRecording() {
		span.AddEvent("transition", trace.WithAttributes(
			attribute.String("genbus.phase", task.PhaseWord(e.Job.GetExecution().GetPhase())),
			attribute.Int64("genbus.version", int64(e.Version()))))
	}
}

// endSpan ends the span of a hold, which is an error when the job, as it is known, has
// failed. The error's message may quote the upstream, so it is left out.
func (m *Message) endSpan(outcome error, polls int, r *Record) {
	span := m.Span()
	if span.IsRecording() {
		e := r.last()
		span.SetAttributes(attribute.String("genbus.outcome", word(outcome)), attribute.Int("genbus.polls", polls))
		if e.Job != nil && e.Job.GetError() != nil && e.Terminal() {
			span.SetStatus(codes.Error, e.Job.GetError().GetCode())
		}
	}
	span.End()
}
