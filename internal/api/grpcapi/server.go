// Package grpcapi is the gRPC adapter of the core. It serves genbus's services and the standard
// health service, with an interceptor for all calls. It does not open a listener.
package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/operator"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// Timeouts of gRPC connections. Clients may ping every 10 s, with or without open streams. The
// server pings a connection that has been silent for a minute, and closes the connection if the
// ping is not answered.
const (
	minClientPing = 10 * time.Second
	serverPing    = time.Minute
	pingTimeout   = 20 * time.Second
	dialTimeout   = 10 * time.Second
)

// Limits of one gRPC connection. While maxStreams calls are open, further calls wait at the client.
// maxHeaderList limits a call's metadata in bytes.
const (
	maxStreams    = 1000
	maxHeaderList = 64 << 10
)

// aroundBody is the number of bytes that a message may have in addition to the body. Admission
// limits the body itself.
const aroundBody = 64 << 10

// Options configures a Server. All fields are required.
type Options struct {
	Core     *core.Core
	Config   *config.Live
	Operator operator.Operator
	Health   *telemetry.Health
	Metrics  *telemetry.Metrics
	Tracing  telemetry.Tracing
	Logger   *slog.Logger
}

// Server holds the gRPC services and an in-process connection to them.
type Server struct {
	server *grpc.Server
	health *healthService
	local  *local
}

// New returns a Server and serves its in-process connection until Close.
func New(o Options) (*Server, error) {
	health := newHealthService(o.Health)
	server := newServer(o, health)
	local, err := newLocal(server, o.Tracing)
	if err != nil {
		return nil, err
	}
	return &Server{server: server, health: health, local: local}, nil
}

// GRPCServer returns the server with all services. The caller must serve it on a listener. Close
// stops the server. To let calls finish, call GracefulStop before Close.
func (s *Server) GRPCServer() *grpc.Server { return s.server }

// InProcess returns the in-process connection. Calls over it count as HTTP calls, because the HTTP
// handler has already applied the rate limit. Close closes the connection.
func (s *Server) InProcess() *grpc.ClientConn { return s.local.conn }

// Drain makes health checks report NOT_SERVING.
func (s *Server) Drain() { s.health.drain() }

// closeTime is the time that calls have to finish when the server closes.
const closeTime = time.Second

// Close stops the server and cuts off calls that have not ended within closeTime. It may be called
// more than once.
func (s *Server) Close() error {
	s.Drain()
	cut := time.AfterFunc(closeTime, s.server.Stop)
	defer cut.Stop()
	s.server.GracefulStop()
	return s.local.close()
}

func newServer(o Options, h *healthService) *grpc.Server {
	i := &interceptor{core: o.Core, metrics: o.Metrics, log: o.Logger, unauthenticated: newUnauthenticatedLimiter()}
	limit := int(o.Config.Now().GRPC.MaxMessageBytes)
	s := grpc.NewServer(
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(o.Tracing.Provider), otelgrpc.WithPropagators(o.Tracing.Propagator))),
		grpc.StreamInterceptor(i.stream), // register makes it run for unary methods too
		grpc.MaxRecvMsgSize(limit+aroundBody), grpc.MaxSendMsgSize(limit),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(dialTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPing, Timeout: pingTimeout}),
	)
	i.register(s, genbusv1grpc.VideoService_ServiceDesc, videoService{core: o.Core, log: o.Logger})
	i.register(s, genbusv1grpc.ChatService_ServiceDesc, chatService{core: o.Core, log: o.Logger})
	i.register(s, genbusv1grpc.ModelService_ServiceDesc, modelService{core: o.Core})
	i.register(s, genbusv1grpc.OperatorService_ServiceDesc, operatorService{core: o.Core, operator: o.Operator, log: o.Logger})
	i.register(s, grpc_health_v1.Health_ServiceDesc, h.server)
	reflection.Register(s)
	return s
}

// interceptor wraps every gRPC call.
type interceptor struct {
	core            *core.Core
	metrics         *telemetry.Metrics
	log             *slog.Logger
	unauthenticated *unauthenticatedLimiter
}

func (i *interceptor) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	begin := time.Now()
	ctx, c := newCall(ss.Context(), grpcMethod(info.FullMethod))
	defer func() {
		// recover works only in the deferred function itself.
		err = i.finish(ctx, c, begin, recover(), err)
	}()
	_ = ss.SetHeader(c.header()) // fails only if the header has already been sent
	if err := i.enter(c); err != nil {
		return err
	}
	return handler(srv, &callStream{ServerStream: ss, ctx: ctx, interceptor: i, manyRequests: info.IsClientStream})
}

// callStream is a stream whose context holds the call.
type callStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // ServerStream.Context returns it

	interceptor *interceptor
	// manyRequests is set for methods with a stream of requests. For them, io.EOF means the end of
	// the stream and is not an error.
	manyRequests bool
}

// Context returns the context that holds the call.
func (s *callStream) Context() context.Context { return s.ctx }

// read reads the next message. It reports a missing or malformed message as the client's error,
// whereas gRPC would report a server error.
func (s *callStream) read(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if s.manyRequests && errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, io.EOF) || status.Code(err) == codes.Internal {
		return errcode.New(errcode.InvalidRequest, "the call's message cannot be read: %w", err)
	}
	return err
}

// enter identifies the call's tenant or operator, unless the method is open.
func (i *interceptor) enter(c *call) (err error) {
	callers := i.core.Callers
	byKey := func() (string, error) { return callers.Tenant(c.authorization) }
	switch {
	case c.method.open():
	case c.method.operators():
		c.operator, err = callers.Identify(func() (string, error) { return callers.Operator(c.authorization, c.method.acts()) })
	case c.ingress == telemetry.IngressHTTP: // the HTTP handler counted the request before it read the body
		c.tenant, err = callers.Identify(byKey)
	default:
		c.tenant, err = callers.Enter(byKey)
	}
	return err
}

// videoService and chatService translate between gRPC and the core.
type videoService struct {
	genbusv1grpc.UnimplementedVideoServiceServer
	core *core.Core
	log  *slog.Logger
}

type chatService struct {
	genbusv1grpc.UnimplementedChatServiceServer
	core *core.Core
	log  *slog.Logger
}

type modelService struct {
	genbusv1grpc.UnimplementedModelServiceServer
	core *core.Core
}

// ListModels is documented in model_service.proto.
func (s modelService) ListModels(ctx context.Context, m *genbusv1.ListModelsRequest) (*genbusv1.ListModelsResponse, error) {
	models, err := s.core.Models.List(ctx, m.GetKind())
	if err != nil {
		return nil, err
	}
	return &genbusv1.ListModelsResponse{Models: models}, nil
}

// fill adds the call's tenant, ingress and headers to a request.
func fill(ctx context.Context, r *admission.Request) error {
	c := callOf(ctx)
	r.Tenant, r.Ingress = c.tenant, c.ingress
	return c.addHeaders(r)
}
