package api

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/telemetry"
)

// Times of gRPC connections. A client may ping every 10 s, streams or not; a
// connection whose other end is silent for a minute is asked, and closed when it
// does not answer.
const (
	minClientPing = 10 * time.Second
	serverPing    = time.Minute
	pingTimeout   = 20 * time.Second
	dialTimeout   = 10 * time.Second
)

// Limits of one gRPC connection: calls at a time, of which more wait at the client,
// and the bytes of a call's metadata.
const (
	maxStreams    = 1000
	maxHeaderList = 64 << 10
)

// aroundBody is room in a message for what stands around a body, in bytes. The body is
// bounded by admission.
const aroundBody = 64 << 10

func newGRPCServer(o Options, c *core, h *healthService) *grpc.Server {
	i := &interceptor{cfg: o.Config, core: c, metrics: o.Metrics, log: o.Logger}
	limit := int(o.Config.Now().GRPC.MaxMessageBytes)
	s := grpc.NewServer(
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(o.Tracing.Provider), otelgrpc.WithPropagators(o.Tracing.Propagator))),
		grpc.StreamInterceptor(i.stream), // register has it run for the unary methods too
		grpc.MaxRecvMsgSize(limit+aroundBody), grpc.MaxSendMsgSize(limit),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(dialTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPing, Timeout: pingTimeout}),
	)
	i.register(s, genbusv1.VideoService_ServiceDesc, videoService{core: c})
	i.register(s, genbusv1.ChatService_ServiceDesc, chatService{core: c})
	i.register(s, genbusv1.ModelService_ServiceDesc, modelService{core: c})
	i.register(s, genbusv1.OperatorService_ServiceDesc, operatorService{core: c, operator: o.Operator, logger: o.Logger})
	i.register(s, grpc_health_v1.Health_ServiceDesc, h.server)
	reflection.Register(s)
	return s
}

// interceptor is what every gRPC call goes through.
type interceptor struct {
	cfg     *config.Live
	core    *core
	metrics *telemetry.Metrics
	log     *slog.Logger
}

func (i *interceptor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	begin := time.Now()
	ctx, c := newCall(ss.Context(), grpcMethod(info.FullMethod))
	defer func() {
		// recover works only in the deferred function itself.
		err = i.finish(ctx, c, begin, recover(), err)
	}()
	_ = ss.SetHeader(c.header()) // fails only after the header was sent
	if err := i.enter(c); err != nil {
		return err
	}
	return handler(srv, &callStream{ServerStream: ss, ctx: ctx, core: i.core, manyRequests: info.IsClientStream})
}

// callStream carries our context.
type callStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // that is what Context of a stream is

	core *core
	// manyRequests says that the client sends a stream too, whose end is io.EOF.
	manyRequests bool
}

// Context has the call in it.
func (s *callStream) Context() context.Context { return s.ctx }

// read reads the call's one message, or the next of them. gRPC calls one that it
// cannot read, or that is missing, a failure of the server.
func (s *callStream) read(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.manyRequests && errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Internal {
		return fault.New(fault.InvalidRequest, "the call's message cannot be read: %w", err)
	}
	return err
}

// enter finds the call's tenant, unless the method is open to all.
func (i *interceptor) enter(c *call) (err error) {
	if c.method.open() {
		return nil
	}
	if err := i.core.drain.refusal(); err != nil {
		return err
	}
	if c.method.operators() {
		return i.enterOperator(c)
	}
	if c.tenant, err = tenantOf(i.cfg.Now(), c.authorization); err != nil || c.way == telemetry.WayHTTP {
		return err // the gateway has counted the request before it read its body
	}
	return i.core.admission.Request(c.tenant)
}

// videoService, chatService and modelService translate between gRPC and the
// core.
type videoService struct {
	genbusv1.UnimplementedVideoServiceServer
	core *core
}

type chatService struct {
	genbusv1.UnimplementedChatServiceServer
	core *core
}

type modelService struct {
	genbusv1.UnimplementedModelServiceServer
	core *core
}

// ListModels is in model_service.proto.
func (s modelService) ListModels(ctx context.Context, m *genbusv1.ListModelsRequest) (*genbusv1.ListModelsResponse, error) {
	models, err := s.core.models(ctx, m.GetKind())
	if err != nil {
		return nil, err
	}
	return &genbusv1.ListModelsResponse{Models: models}, nil
}

// fill completes a request with what its call says.
func fill(ctx context.Context, r *admission.Request) error {
	c := callOf(ctx)
	r.Tenant, r.Way = c.tenant, c.way
	return c.addHeaders(r)
}
