// Package intake passes requests from the inbox to admission. A request that may be accepted later
// stays in the inbox. A request that cannot be accepted becomes a dead letter.
package intake

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// Slots is the maximum number of requests of one kind that one process handles concurrently.
	Slots = 64
	// maxHeld bounds the requests of one kind that wait for capacity with a pending delayed NAK.
	// All replicas share the limit, so a tenant that has reached its own limits can block others
	// only with this many waiting requests.
	maxHeld = 20_000
	// AckWait is the time after which a request held by a dead replica is redelivered. It exceeds
	// the longest time that a live replica needs. Timeout covers the admission and a possible dead
	// letter, and confirmTimeout covers a confirmed ACK.
	AckWait = 20 * time.Second
	// Timeout bounds the work on one request.
	Timeout        = 15 * time.Second
	confirmTimeout = 3 * time.Second
	// uploadWait bounds the wait for a slot to read an upload. If no slot becomes free, the request
	// is returned to the inbox so that it does not block requests without uploads.
	uploadWait = 5 * time.Second
)

// Options are the dependencies of an Intake. All but Tracing are required.
type Options struct {
	Life        *hold.Life
	Broker      *broker.Broker
	Log         *joblog.Log
	Items       queue.Items
	DeadLetters deadletter.Store
	Uploads     *natsreq.Uploads
	Admission   *admission.Admission
	Tracing     telemetry.Tracing
	Logger      *slog.Logger
}

// Intake admits requests of one kind, up to Slots at a time.
type Intake struct {
	Options
	kind subject.Kind
	// missed records the messages whose upload was missing.
	missed seenSet
}

// New returns the intake of a kind.
func New(kind subject.Kind, o Options) *Intake { return &Intake{Options: o, kind: kind} }

// Durable returns the durable consumer of the inbox.
func (in *Intake) Durable() (stream string, cfg jetstream.ConsumerConfig) {
	names := in.Broker.Names()
	return names.Requests(), jetstream.ConsumerConfig{
		Durable:       subject.IntakeDurable(in.kind),
		FilterSubject: names.RequestPattern(in.kind),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxHeld,
	}
}

// Take admits a fetched request. It calls release when the request no longer needs its slot.
func (in *Intake) Take(m jetstream.Msg, release func()) {
	in.Life.Jobs.Go(func() {
		defer release()
		d, err := hold.NewDelivery(in.Broker.WriteConn(), m)
		if err != nil {
			in.Logger.Error("ignored message without delivery metadata", "subject", m.Subject(), telemetry.KeyError, err)
			return
		}
		ctx, cancel := context.WithTimeoutCause(in.Life.Working, Timeout, errors.New("admission timed out"))
		defer cancel()
		served, outcome := in.Admit(ctx, m)
		if err := in.settle(ctx, d, outcome, served); err != nil {
			in.Logger.Warn("could not settle message, awaiting redelivery", "subject", m.Subject(), telemetry.KeyError, err)
		}
	})
}

// Admit handles one request. If the request may be accepted later, the outcome returns it to the
// inbox. If it cannot be accepted, Admit stores it as a dead letter. served is the upload of an
// accepted request. Remove it only after acknowledging the message.
func (in *Intake) Admit(ctx context.Context, m jetstream.Msg) (served *natsreq.Upload, outcome error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, hold.ReturnAfter(time.Minute)
	}
	ctx, span := in.startSpan(telemetry.ExtractHeader(ctx, m.Headers()), meta.Sequence.Stream)
	r, err := natsreq.Decode(in.Broker.Names(), m.Subject(), m.Headers(), m.Data())
	source := admission.ByInbox(meta.Stream, meta.Sequence.Stream, meta.Timestamp)
	r.Source = &source
	if err == nil {
		err = in.accept(ctx, &r, meta)
	}
	endSpan(span, err)
	if err == nil {
		return r.Upload, nil
	}
	f := errcode.From(err)
	if natsreq.Retryable(f) || f.Code == errcode.InputLost && in.missed.first(meta.Sequence.Stream) {
		in.Logger.Debug("returned request to inbox", "subject", m.Subject(), "sequence", meta.Sequence.Stream, "code", f.Code)
		return nil, hold.ReturnAfter(waitAgain(f, meta.NumDelivered))
	}
	return nil, in.refuse(ctx, m, meta, r.Request, f)
}

// accept passes a request to admission. It checks the rate limit first, so that it does not read
// the uploads of excess requests.
func (in *Intake) accept(ctx context.Context, r *natsreq.Incoming, meta *jetstream.MsgMetadata) error {
	if err := in.Admission.CheckRateLimit(r.Request); err != nil {
		return err
	}
	release, err := in.Uploads.Complete(ctx, r, uploadWait)
	defer release()
	if err != nil {
		return err
	}
	r.First = meta.NumDelivered == 1 && r.RequestID == ""
	e, err := in.Admission.Admit(ctx, r.Request)
	if err != nil || !e.Terminal() {
		return err
	}
	return in.Log.Finish(ctx, e) // the feed copy of an earlier refusal may be missing
}

// waitAgain returns the delay before a request is retried. The delay of requests that wait for
// capacity grows with each delivery, up to a minute, because there may be thousands of them.
func waitAgain(f *errcode.Error, deliveries uint64) time.Duration {
	wait := max(f.RetryAfter, time.Second)
	switch f.Code {
	case errcode.QueueFull, errcode.TenantFull, errcode.StorageFull, errcode.DeadLettersFull:
		wait = min(wait<<min(deliveries-1, 6), max(wait, time.Minute))
		return wait - rand.N(wait/4) // spread the retries
	default:
		return wait
	}
}

// refuse stores the message as a dead letter. If the log has capacity, refuse also commits a
// terminal event for the job ID, so that followers see the refusal. It does not touch the ID of an
// accepted job.
func (in *Intake) refuse(ctx context.Context, m jetstream.Msg, meta *jetstream.MsgMetadata, r admission.Request, f *errcode.Error) error {
	subj, seq, id := errcode.Clip(m.Subject(), maxText), meta.Sequence.Stream, r.JobID()
	in.Logger.Warn("refused request", "subject", errcode.Clip(subj, maxShown), "sequence", seq, "job_id", id, "code", f.Code, "error", errcode.Clip(f.Message, maxShown))
	letter := &genbusv1.DeadLetter{
		Error: f.TaskError(), Id: id, Kind: string(in.kind), Tenant: errcode.Clip(r.Tenant, maxText), Subject: subj, Data: m.Data(), Headers: headers(m),
	}
	if err := in.DeadLetters.Reject(ctx, letter, seq, meta.Timestamp); err != nil {
		in.Logger.Error("could not write dead letter", "subject", errcode.Clip(subj, maxShown), "sequence", seq, telemetry.KeyError, err)
		return hold.ReturnAfter(10 * time.Second)
	}
	if id == "" {
		return nil
	}
	err := in.RecordRefusal(ctx, r, id, f)
	if errors.Is(err, errNoCapacity) {
		// The dead letter already records the refusal. While the log is full, returning the message
		// could add another dead letter on each delivery.
		in.Logger.Warn("skipped recording refusal", "job_id", id, telemetry.KeyError, err)
		return nil
	}
	if err != nil {
		in.Logger.Warn("could not record refusal", "job_id", id, telemetry.KeyError, err)
		return hold.ReturnAfter(10 * time.Second)
	}
	return nil
}

// Limits, in bytes, on the text that a dead letter copies from its message, apart from the data.
// Clipping also replaces invalid UTF-8. A dead letter cannot contain it, and without a dead letter
// the message would never leave the inbox. Valid names stay unchanged, and no invalid name becomes
// valid.
const (
	maxHeaderKey = 256
	maxText      = 4 << 10 // the tenant, the subject, and each header value
	maxShown     = 256     // the subject and the error in log messages
)

func headers(m jetstream.Msg) []*genbusv1.Header {
	out := make([]*genbusv1.Header, 0, len(m.Headers()))
	for k, v := range m.Headers() {
		out = append(out, &genbusv1.Header{Key: errcode.Clip(k, maxHeaderKey), Values: valid(v)})
	}
	return out
}

func valid(values []string) []string {
	out := make([]string, 0, len(values))
	for _, v := range values {
		out = append(out, errcode.Clip(v, maxText))
	}
	return out
}

// errNoCapacity reports that the remaining log capacity is reserved for accepted jobs.
var errNoCapacity = errors.New("the log has no capacity for it")

// RecordRefusal commits a single terminal event for an ID that belongs to no job. It does not touch
// a job's ID, even if only the job's work item is stored and its log is still empty.
func (in *Intake) RecordRefusal(ctx context.Context, r admission.Request, id string, f *errcode.Error) error {
	if f.Code == errcode.IdempotencyKeyReused {
		return nil
	}
	item := &genbusv1.WorkItem{
		Id: id, Kind: string(in.kind), Tenant: r.Tenant, Model: in.Admission.Model(r), RequestId: r.RequestID, AcceptedAt: timestamppb.Now(), Fingerprint: r.Fingerprint(),
	}
	current, err := in.Log.Get(ctx, joblog.NameOf(item))
	if errors.Is(err, joblog.ErrNotFound) {
		if _, err := in.Items.Find(ctx, joblog.NameOf(item)); !errors.Is(err, broker.ErrNoMessage) {
			return err // nil if a job was accepted under the ID
		}
		end := task.FailedAtOnce(item, time.Now(), f.TaskError())
		release, ok := in.Log.Capacity.ReserveEnd(ctx, end)
		if !ok {
			return errNoCapacity // anyone who can publish can cause refusals
		}
		defer release()
		current, err = in.Log.CommitOrCurrent(ctx, end, 0)
	}
	if err != nil || !current.Terminal() {
		return err
	}
	return in.Log.Finish(ctx, current)
}

func (in *Intake) startSpan(ctx context.Context, sequence uint64) (context.Context, trace.Span) {
	return hold.Tracer(in.Tracing).Start(ctx, "genbus.inbox "+string(in.kind), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.Int64("genbus.sequence", int64(sequence))))
}

// endSpan ends the span of an inbox message. It drops the span of a request that must wait, because
// the request may be retried every second.
func endSpan(span trace.Span, err error) {
	if f := errcode.From(err); err != nil && natsreq.Retryable(f) && f.Code != errcode.AcceptanceUnknown {
		return
	}
	hold.EndSpan(span, err)
}

// settle settles an inbox message and removes the upload of an accepted request.
//
// It removes the upload only after the ACK is confirmed, so that no later delivery lacks its
// upload. If it removed the upload first and the ACK were lost, the message of an accepted job
// would be redelivered without its request and become a dead letter. If the ACK is not confirmed,
// the upload stays until its bucket's TTL expires, and a redelivery attaches to the existing job.
func (in *Intake) settle(ctx context.Context, d hold.Delivery, outcome error, served *natsreq.Upload) error {
	if served == nil {
		return d.Settle(outcome)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	if err := d.SettleConfirmed(ctx, outcome); err != nil {
		return err
	}
	in.Uploads.Remove(ctx, served)
	return nil
}
