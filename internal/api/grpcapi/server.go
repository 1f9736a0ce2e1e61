// Package grpcapi serves gRPC over the core: the services, what every call goes
// through, and the standard health service. It opens no listener.
package grpcapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"

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
	"github.com/genbus/genbus/internal/errcode"
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

// aroundBody is the room in a message for what surrounds a body, in bytes. The body is
// bounded by admission.
const aroundBody = 64 << 10

// Options are what a Server works with. All are required.
type Options struct {
	Core     *core.Core
	Config   *config.Live
	Routes   *routes.Table
	Operator operator.Operator
	Health   *telemetry.Health
	Metrics  *telemetry.Metrics
	Tracing  telemetry.Tracing
	Logger   *slog.Logger
}

// Server is the gRPC services, and a connection to them inside the process.
type Server struct {
	server *grpc.Server
	health *healthService
	local  *local
}

// New builds a server, and serves the connection inside the process: Close ends it.
func New(o Options) (*Server, error) {
	health := newHealthService(o.Health)
	server := newServer(o, health)
	local, err := newLocal(server, o.Tracing)
	if err != nil {
		return nil, err
	}
	return &Server{server: server, health: health, local: local}, nil
}

// GRPCServer has all services registered; the caller gives it a listener. Close
// stops it; GracefulStop before that lets calls finish.
func (s *Server) GRPCServer() *grpc.Server { return s.server }

// InProcess reaches the services without a network; calls by it count as HTTP, and
// their rate was checked there. It is the server's own, which closes it.
func (s *Server) InProcess() *grpc.ClientConn { return s.local.conn }

// Drain tells those who ask for the health that nothing is served any more.
func (s *Server) Drain() { s.health.drain() }

// closeTime is how long calls that have ended may take to tell their clients so.
const closeTime = time.Second

// Close stops the server. Calls that have not ended within closeTime are cut. It may be called twice.
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
		grpc.StreamInterceptor(i.stream), // register has it run for the unary methods too
		grpc.MaxRecvMsgSize(limit+aroundBody), grpc.MaxSendMsgSize(limit),
		grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(dialTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: serverPing, Timeout: pingTimeout}),
	)
	i.register(s, genbusv1.VideoService_ServiceDesc, videoService{core: o.Core, log: o.Logger})
	i.register(s, genbusv1.ChatService_ServiceDesc, chatService{core: o.Core, log: o.Logger})
	i.register(s, genbusv1.ModelService_ServiceDesc, modelService{routes: o.Routes})
	i.register(s, genbusv1.OperatorService_ServiceDesc, operatorService{core: o.Core, operator: o.Operator, log: o.Logger})
	i.register(s, grpc_health_v1.Health_ServiceDesc, h.server)
	reflection.Register(s)
	return s
}

// interceptor is what every gRPC call goes through.
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
	_ = ss.SetHeader(c.header()) // fails only after the header was sent
	if err := i.enter(c); err != nil {
		return err
	}
	return handler(srv, &callStream{ServerStream: ss, ctx: ctx, interceptor: i, manyRequests: info.IsClientStream})
}

// callStream carries our context.
type callStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // that is what Context of a stream is

	interceptor *interceptor
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
		return errcode.New(errcode.InvalidRequest, "the call's message cannot be read: %w", err)
	}
	return err
}

// enter finds the call's tenant or operator, unless the method is open to all.
func (i *interceptor) enter(c *call) (err error) {
	callers := i.core.Callers
	byKey := func() (string, error) { return callers.Tenant(c.authorization) }
	switch {
	case c.method.open():
	case c.method.operators():
		c.operator, err = callers.Identify(func() (string, error) { return callers.Operator(c.authorization, c.method.acts()) })
	case c.ingress == telemetry.IngressHTTP: // the gateway has counted the request before it read its body
		c.tenant, err = callers.Identify(byKey)
	default:
		c.tenant, err = callers.Enter(byKey)
	}
	return err
}

// videoService and chatService translate between gRPC and the core.
type videoService struct {
	genbusv1.UnimplementedVideoServiceServer
	core *core.Core
	log  *slog.Logger
}

type chatService struct {
	genbusv1.UnimplementedChatServiceServer
	core *core.Core
	log  *slog.Logger
}

type modelService struct {
	genbusv1.UnimplementedModelServiceServer
	routes *routes.Table
}

// ListModels is in model_service.proto.
func (s modelService) ListModels(ctx context.Context, m *genbusv1.ListModelsRequest) (*genbusv1.ListModelsResponse, error) {
	if kind := m.GetKind(); kind != "" && !subject.Kind(kind).Valid() {
		return nil, errcode.Invalid([]errcode.Violation{{Field: "kind", Description: "must be video, chat or empty"}})
	}
	return &genbusv1.ListModelsResponse{Models: s.routes.Models(ctx, m.GetKind())}, nil
}

// fill completes a request with what its call says.
func fill(ctx context.Context, r *admission.Request) error {
	c := callOf(ctx)
	r.Tenant, r.Ingress = c.tenant, c.ingress
	return c.addHeaders(r)
}
