package grpcapi

import (
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/grpcstatus"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Metadata keys of calls and answers.
const (
	mdAuthorization  = "authorization"
	mdIdempotencyKey = "idempotency-key"
	mdLabels         = "genbus-labels"
	mdRequestID      = "x-request-id"
	// mdNotice is the key of notices. Its value is resume_expired if a watch could not resume at
	// the requested version, or that of core.Notice.
	mdNotice = subject.HeaderNotice
)

// grpcMethod is a full method name.
type grpcMethod string

// open reports whether a method needs no key. This is true of health checks and of reflection,
// because the contract is public.
func (m grpcMethod) open() bool {
	return strings.HasPrefix(string(m), "/grpc.health.") || strings.HasPrefix(string(m), "/grpc.reflection.")
}

type call struct {
	method        grpcMethod
	id            []string // X-Request-Id, one value
	tenant        string
	operator      string // the caller of an operator method
	ingress       telemetry.Ingress
	authorization string
	requestID     string
	labels        string
}

type callKey struct{}

func newCall(ctx context.Context, method grpcMethod) (context.Context, *call) {
	md, _ := metadata.FromIncomingContext(ctx)
	c := &call{
		method: method, id: core.RequestID(md.Get(mdRequestID)), ingress: telemetry.IngressGRPC,
		authorization: first(md, mdAuthorization), requestID: first(md, mdIdempotencyKey),
		labels: strings.Join(md.Get(mdLabels), ","),
	}
	if p, ok := peer.FromContext(ctx); ok && inProcess(p.Addr) {
		c.ingress = telemetry.IngressHTTP
	}
	return context.WithValue(ctx, callKey{}, c), c
}

func first(md metadata.MD, key string) string {
	if v := md.Get(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

// callOf returns the call that the interceptor stored in ctx.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

func (c *call) header() metadata.MD { return metadata.MD{mdRequestID: c.id} }

func (c *call) addHeaders(r *admission.Request) error {
	return natsreq.AddHeaders(r, c.requestID, c.labels)
}

func (c *call) name(kind subject.Kind, id string) subject.JobName {
	return subject.JobName{Kind: kind, Tenant: c.tenant, ID: id}
}

// setState sets a job's ID and its notice, if any, in the answer's header.
func setState(ctx context.Context, jobs *core.Jobs, j task.Job) {
	setJobID(ctx, j.GetId())
	setNotice(ctx, jobs.Notice(j))
}

// setNotice sets a notice, if any, in the answer's header.
func setNotice(ctx context.Context, notice string) {
	if notice != "" {
		_ = grpc.SetHeader(ctx, metadata.Pairs(mdNotice, notice)) // fails only if the header has already been sent
	}
}

// setJobID sets a job's ID in the answer's header.
func setJobID(ctx context.Context, id string) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(subject.HeaderJobID, id)) // fails only if the header has already been sent
}

// finish counts the call and returns the error for the caller. It turns a panic into an error.
func (i *interceptor) finish(ctx context.Context, c *call, begin time.Time, p any, err error) error {
	if p != nil {
		i.panicked(ctx, c, p)
		err = core.PanicFault()
	}
	code := codes.OK
	if err != nil {
		err = i.explain(ctx, c, err)
		if code = status.Code(err); p == nil {
			code = counted(ctx, code)
		}
	}
	i.metrics.GRPCRequest(string(c.method), code.String(), time.Since(begin))
	return err
}

// counted returns the code under which the metrics count a call. If the client has left or its
// deadline has passed, an internal failure is probably a consequence and counts as Canceled or
// DeadlineExceeded.
func counted(ctx context.Context, code codes.Code) codes.Code {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable, codes.Aborted:
		if err := ctx.Err(); err != nil {
			return status.FromContextError(err).Code()
		}
	}
	return code
}

func (i *interceptor) panicked(ctx context.Context, c *call, p any) {
	i.log.ErrorContext(ctx, "panic in gRPC handler", telemetry.KeyRequestID, c.id[0],
		telemetry.KeyOp, string(c.method), telemetry.KeyError, p, "stack", string(debug.Stack()))
}

// explain converts an error for the caller and logs it if necessary. It returns gRPC's own errors
// unchanged.
func (i *interceptor) explain(ctx context.Context, c *call, err error) error {
	var f *errcode.Error
	if s, ok := status.FromError(err); ok && !errors.As(err, &f) {
		return s.Err()
	}
	f = core.Explain(ctx, subject.JobName{}, err)
	if f.JobID != "" {
		setJobID(ctx, f.JobID)
	}
	if level, ok := core.LogLevel(ctx, f); ok {
		i.log.Log(ctx, level, "gRPC call failed", telemetry.KeyRequestID, c.id[0],
			telemetry.KeyOp, string(c.method), telemetry.KeyJobID, f.JobID, telemetry.KeyError, f)
	}
	return grpcstatus.Of(f).Err()
}
