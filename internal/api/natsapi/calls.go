// Package natsapi is the NATS request-reply adapter of the core. It runs a micro service that
// accepts, reads, lists and cancels jobs, sends their results, and lists models. Package consumer
// handles inbox messages, which get no answer.
package natsapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/api/core"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Limits of the request-reply endpoints, by class. While the class for new jobs has no slot left, its
// requests wait in the subscription, the first one up to callSlotWait. Other classes refuse at once:
// their callers ask again, and a queue of requests whose callers have given up would only grow.
const (
	maxCalls        = 256 // new jobs
	maxReads        = 64  // get, cancel and models
	maxLists        = 16  // a page of 100 jobs may take 25 MiB of memory
	maxDownloads    = 16  // they may wait for an upstream
	callSlotWait    = 2 * time.Second
	callTimeout     = 30 * time.Second
	callPendingMsgs = 64 << 10
	callPendingSize = 256 << 20
	askPendingMsgs  = 4 << 10
	askPendingSize  = 8 << 20
)

// callsName is the name of both the service and its queue group.
const callsName = "genbus"

// Options configures the request-reply endpoints. All fields are required.
type Options struct {
	Core    *core.Core
	Names   subject.Space
	Uploads *natsreq.Uploads
	Tracing telemetry.Tracing
	Logger  *slog.Logger
	// Version is shown by "nats micro ls" if it is a semantic version.
	Version string
}

// calls answers requests on genbus.call.<kind>.<tenant> and the other request-reply subjects.
type calls struct {
	base       context.Context //nolint:containedctx // NATS requests carry none
	core       *core.Core
	names      subject.Space
	uploads    *natsreq.Uploads
	log        *slog.Logger
	propagator propagation.TextMapPropagator
	tracer     trace.Tracer
	nc         *nats.Conn
	service    micro.Service
	slots      []chan struct{} // of each class of endpoints
	sharing    shares
}

// endpoint answers the requests on one subject.
type endpoint struct {
	name, subject string
	// span is the name of its spans.
	span   string
	slots  chan struct{}
	waits  bool // for a slot
	answer func(context.Context, micro.Request)
	// late is the cause of ending a request that takes longer than callTimeout.
	late *errcode.Error
}

// endpoints returns all endpoints. Each class has its own slots, so slow requests of one class do
// not keep those of another waiting.
func (c *calls) endpoints() []endpoint {
	class := func(slots int) chan struct{} {
		c.slots = append(c.slots, make(chan struct{}, slots))
		return c.slots[len(c.slots)-1]
	}
	making := class(maxCalls)
	var out []endpoint
	for _, kind := range subject.Kinds {
		out = append(out, endpoint{
			name: string(kind), subject: c.names.CallPattern(kind), span: "genbus.call", slots: making, waits: true, answer: c.call,
			late: errcode.New(errcode.AcceptanceUnknown, "no answer from JetStream within %s", callTimeout),
		})
	}
	return append(out, c.operations(class(maxReads), class(maxLists), class(maxDownloads))...)
}

// Start starts the micro service "genbus", which answers requests on genbus.call.video.* and the
// other request-reply subjects. NATS distributes the requests across replicas. Calls use only the
// values of ctx, so canceling ctx does not cancel them. The returned stop function answers the
// requests that have already arrived and stops the service, at the latest when its context ends. It
// may be called more than once.
func Start(ctx context.Context, nc *nats.Conn, o Options) (stop func(context.Context) error, err error) {
	c := &calls{
		base: context.WithoutCancel(ctx), core: o.Core, names: o.Names, uploads: o.Uploads, log: o.Logger,
		propagator: o.Tracing.Propagator, tracer: o.Tracing.Provider.Tracer(tracerName), nc: nc, sharing: shares{running: map[string]int{}},
	}
	c.service, err = micro.AddService(nc, micro.Config{
		Name: callsName, Version: semver(o.Version), QueueGroup: callsName,
		Description: "accepts and serves video tasks and chat completions of generative models",
		ErrorHandler: func(_ micro.Service, e *micro.NATSError) {
			c.log.Warn("received asynchronous error in NATS calls", telemetry.KeySubject, e.Subject, telemetry.KeyError, e.Description)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("nats calls: %w", err)
	}
	for _, e := range c.endpoints() {
		limits := micro.WithEndpointPendingLimits(askPendingMsgs, askPendingSize)
		if e.waits {
			limits = micro.WithEndpointPendingLimits(callPendingMsgs, callPendingSize)
		}
		err := c.service.AddEndpoint(e.name, c.serve(e), micro.WithEndpointSubject(e.subject), limits)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("nats calls: endpoint %s: %w", e.name, err), c.service.Stop())
		}
	}
	if err := nc.FlushTimeout(callTimeout); err != nil {
		return nil, errors.Join(fmt.Errorf("nats calls: subscribe: %w", err), c.service.Stop())
	}
	return c.stop, nil
}

// stop drains the subscriptions and waits for the running calls.
func (c *calls) stop(ctx context.Context) error {
	if c.service.Stopped() {
		return nil
	}
	if err := c.service.Stop(); err != nil {
		return fmt.Errorf("nats calls: stop: %w", err)
	}
	if err := c.arrived(ctx); err != nil {
		return err
	}
	for _, slots := range c.slots {
		for range cap(slots) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return fmt.Errorf("nats calls: some calls did not end in time: %w", context.Cause(ctx))
			}
		}
	}
	return c.flush() // the last answers are still buffered in the connection
}

// arrived waits until serve has received all requests that the server sent before the subscriptions
// ended.
func (c *calls) arrived(ctx context.Context) error {
	if err := c.flush(); err != nil {
		return err
	}
	taken := make(chan struct{})
	if err := c.nc.Barrier(func() { close(taken) }); errors.Is(err, nats.ErrConnectionClosed) {
		return nil // no more requests can arrive
	} else if err != nil {
		return fmt.Errorf("nats calls: %w", err)
	}
	select {
	case <-taken:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nats calls: the waiting requests were not taken in time: %w", context.Cause(ctx))
	}
}

func (c *calls) flush() error {
	if err := c.nc.FlushTimeout(callTimeout); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("nats calls: flush: %w", err)
	}
	return nil
}

var semverPattern = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// semver converts the version to a form that micro accepts.
func semver(version string) string {
	if version = strings.TrimPrefix(version, "v"); semverPattern.MatchString(version) {
		return version
	}
	return "0.0.0"
}

// serve waits for a slot and then answers the request in another goroutine. For each endpoint,
// micro calls the handler for one message at a time.
func (c *calls) serve(e endpoint) micro.HandlerFunc {
	return func(r micro.Request) {
		if !e.slot() {
			c.refuse(r, errcode.New(errcode.QueueFull, "this replica answers %d such requests already, so this one was not begun", cap(e.slots)).WithRetryAfter(time.Second))
			return
		}
		go func() {
			defer func() { <-e.slots }()
			c.run(e, r)
		}()
	}
}

// slot takes a slot. It reports false if there is none.
func (e endpoint) slot() bool {
	select {
	case e.slots <- struct{}{}:
		return true
	default:
		if !e.waits {
			return false
		}
	}
	wait := time.NewTimer(callSlotWait)
	defer wait.Stop()
	select {
	case e.slots <- struct{}{}:
		return true
	case <-wait.C:
		return false
	}
}

func (c *calls) run(e endpoint, r micro.Request) {
	ctx, stop := context.WithTimeoutCause(c.base, callTimeout, e.late)
	defer stop()
	ctx, span := c.traced(c.propagator.Extract(ctx, telemetry.HeaderCarrier(nats.Header(r.Headers()))), e.span, r.Subject())
	defer span.End()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic in NATS call", telemetry.KeySubject, r.Subject(), telemetry.KeyError, p, "stack", string(debug.Stack()))
			c.refuse(r, core.PanicFault())
		}
	}()
	e.answer(ctx, r)
}

// call answers a request for a new job.
func (c *calls) call(ctx context.Context, r micro.Request) {
	header := nats.Header(r.Headers())
	e, upload, err := c.submit(ctx, r.Subject(), header, r.Data())
	// Remove the upload after the answer, unless the error is retryable, because a retried request
	// reads the same upload. A caller who misses the answer and retries gets input_lost. The caller
	// then uploads the body again, and the request ID attaches it to the same job.
	if f := errcode.From(err); f == nil || !natsreq.Retryable(f) {
		defer c.uploads.Remove(ctx, upload)
	}
	if err != nil {
		c.fail(ctx, r, err)
		return
	}
	c.reply(ctx, r, accepted(e))
}

// submit accepts a request. upload is the object that held the request, or nil if the message
// itself did.
func (c *calls) submit(ctx context.Context, subj string, header nats.Header, data []byte) (e joblog.Entry, upload *natsreq.Upload, err error) {
	if err := c.core.Callers.Refusal(); err != nil {
		return joblog.Entry{}, nil, err
	}
	in, err := natsreq.Decode(c.names, subj, header, data)
	if err != nil {
		return joblog.Entry{}, nil, err
	}
	if err := c.core.Callers.CheckRateLimit(in.Request); err != nil {
		return joblog.Entry{}, nil, err
	}
	release, err := c.uploads.Complete(ctx, &in, callSlotWait)
	defer release()
	if err == nil {
		in.UseMessageID(header)
		e, err = c.core.Jobs.Submit(ctx, in.Request)
	}
	return e, in.Upload, err
}

// result is an answer in both encodings.
type result struct {
	message proto.Message
	json    func() []byte
	job     task.Job // the job that it is about, or nil
}

// accepted returns the answer to an accepted request.
func accepted(e joblog.Entry) result {
	if chat, ok := e.Job.(*genbusv1.Chat); ok {
		return result{&genbusv1.SubmitChatCompletionResponse{Chat: chat}, func() []byte { return body.ChatJSON(chat, chat.GetReplyJson(), nil) }, chat}
	}
	video := core.VideoOf(e)
	return result{&genbusv1.CreateVideoTaskResponse{Task: video}, func() []byte { return body.VideoCreatedJSON(video) }, video}
}

// encode encodes the answer in the format of the request.
func (out result) encode(request nats.Header) (data []byte, media string, err error) {
	json, err := natsreq.IsJSON(request)
	switch {
	case err != nil:
		return nil, "", err
	case json:
		return out.json(), subject.ContentTypeJSON, nil
	}
	data, err = proto.Marshal(out.message)
	return data, subject.ContentTypeProtobuf, err
}

// reply sends an answer.
func (c *calls) reply(ctx context.Context, r micro.Request, out result) {
	data, media, err := out.encode(nats.Header(r.Headers()))
	if err != nil {
		c.fail(ctx, r, err)
		return
	}
	header := nats.Header{subject.HeaderContentType: {media}}
	if out.job != nil {
		header[subject.HeaderJobID] = []string{out.job.GetId()}
		if notice := c.core.Jobs.Notice(out.job); notice != "" {
			header[subject.HeaderNotice] = []string{notice}
		}
	}
	c.respond(r, data, header)
}

// fail answers with an error and marks the span.
func (c *calls) fail(ctx context.Context, r micro.Request, err error) {
	trace.SpanFromContext(ctx).SetStatus(codes.Error, string(errcode.CodeOf(err)))
	c.refuse(r, err)
}

// refuse answers with an error. The HTTP status and message go into micro's headers and the code
// into a genbus header. The data is a TaskError or, for JSON requests, the JSON envelope.
func (c *calls) refuse(r micro.Request, err error) {
	f := errcode.From(err)
	if level, ok := core.LogLevel(c.base, f); ok {
		c.log.Log(c.base, level, "NATS call failed", telemetry.KeySubject, r.Subject(), telemetry.KeyJobID, f.JobID, telemetry.KeyError, f)
	}
	header := nats.Header{
		micro.ErrorCodeHeader: {strconv.Itoa(f.Status())}, micro.ErrorHeader: {oneLine(f.Message)},
		subject.HeaderErrorCode: {string(f.Code)}, subject.HeaderContentType: {subject.ContentTypeProtobuf},
	}
	if after := f.RetryAfterText(); after != "" {
		header[subject.HeaderRetryAfter] = []string{after}
	}
	if f.JobID != "" {
		header[subject.HeaderJobID] = []string{f.JobID}
	}
	var data []byte
	if json, _ := natsreq.IsJSON(nats.Header(r.Headers())); json {
		header[subject.HeaderContentType] = []string{subject.ContentTypeJSON}
		data = f.Envelope()
	} else if data, err = proto.Marshal(f.TaskError()); err != nil {
		c.log.Error("could not encode error of NATS call", telemetry.KeyError, err)
	}
	c.respond(r, data, header)
}

// respond sends an answer and logs a failure.
func (c *calls) respond(r micro.Request, data []byte, header nats.Header) {
	switch err := c.send(r, data, header); {
	case errors.Is(err, nats.ErrMaxPayload) && header[subject.HeaderErrorCode] == nil:
		c.refuse(r, errcode.New(errcode.Internal, "the answer has %d bytes, and NATS takes %d (max_payload); use HTTP or gRPC", len(data), c.nc.MaxPayload()))
	case err != nil:
		c.log.Warn("could not answer NATS call", telemetry.KeySubject, r.Subject(), telemetry.KeyError, err)
	}
}

// send sends an answer, if an answer may be sent. It does not use micro's respond methods, which
// require the handler to answer before it returns. Our handler, serve, returns first.
func (c *calls) send(r micro.Request, data []byte, header nats.Header) error {
	if !c.answerable(r.Reply()) {
		return nil
	}
	return c.nc.PublishMsg(&nats.Msg{Subject: r.Reply(), Header: header, Data: data})
}

// answerable reports whether an answer may be sent to a reply subject. Requests without a reply
// subject get no answer. Callers can choose any reply subject, and genbus publishes to it with its
// own permissions, so the check ensures that an answer never becomes an event, a job or a JetStream
// call.
func (c *calls) answerable(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, c.names.Prefix()+".")
}

// oneLine truncates a message and replaces its control characters, so that it is valid in a header.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, errcode.Clip(s, 512))
}

// tracerName is the instrumentation scope of spans for NATS requests. HTTP and gRPC use the scopes
// of their libraries.
const tracerName = "github.com/genbus/genbus/internal/api/natsapi"

func (c *calls) traced(ctx context.Context, name, subject string) (context.Context, trace.Span) {
	return c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes( //nolint:spancheck // the caller ends it
		attribute.String("messaging.system", "nats"), attribute.String("messaging.destination.name", subject)))
}
