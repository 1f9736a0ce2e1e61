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

// Message is the message of a held job, as last delivered. It knows nothing of the job's state. It
// is safe for concurrent use.
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

// Context returns a context that ends with the process's work and carries the span of this hold.
func (m *Message) Context() context.Context { return m.ctx }

// Delivery returns the latest delivery.
func (m *Message) Delivery() Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Extend extends the AckWait unless the message is settled.
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

// redelivered replaces the delivery of the message. If d belongs to a second item of the same job,
// it is returned instead: which of the two items is stale is not known until the job is released.
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

// settle settles the message and ends its extensions.
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

// logger returns a logger with the job's attributes.
func (m *Message) logger() *slog.Logger {
	return m.parts.Logger.With(telemetry.JobAttrs(m.name, m.route)...)
}

// Span returns the span of this hold.
func (m *Message) Span() trace.Span { return trace.SpanFromContext(m.ctx) }

// StartCall starts a span for an upstream call that may be paid for.
func (m *Message) StartCall(ctx context.Context, span string, x *genbusv1.Execution) (context.Context, trace.Span) {
	return Tracer(m.parts.Tracing).Start(ctx, span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("genbus.job_id", m.name.ID), attribute.String("genbus.tenant", m.name.Tenant),
		attribute.String("genbus.route", m.route), attribute.String("genbus.upstream", x.GetUpstream()),
		attribute.Int64("genbus.attempt", int64(x.GetAttempt()))))
}

// traceCommit records a committed transition in the span.
func (m *Message) traceCommit(e joblog.Entry) {
	if span := m.Span(); span.IsRecording() {
		span.AddEvent("transition", trace.WithAttributes(
			attribute.String("genbus.phase", task.PhaseWord(e.Job.GetExecution().GetPhase())),
			attribute.Int64("genbus.version", int64(e.Version()))))
	}
}

// endSpan ends the span of a hold, with an error status if the job has failed. The error's message
// is left out because it may quote the upstream.
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
