// Package api is how callers reach genbus: the gRPC services, the HTTP handlers
// and the NATS request-reply endpoints, thin adapters over one core. It opens no
// listener and runs no job.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/erasure"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/inline"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/operator"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// Options are the parts that a Server works with. All are required, except
// Tracing.
type Options struct {
	Config    *config.Live
	Names     subject.Space
	Admission *admission.Admission
	Queue     *queue.Queue
	Log       *tasklog.Log
	Bodies    *broker.Bodies
	Uploads   *natsreq.Uploads
	Eraser    erasure.Eraser
	Operator  *operator.Operator
	Routes    *routes.Table
	Content   *content.Reader
	Inline    *inline.Runner
	Chats     *chatlog.Log
	Health    *telemetry.Health
	Metrics   *telemetry.Metrics
	Tracing   telemetry.Tracing
	Logger    *slog.Logger
	// Version of the build, as "nats micro ls" shows it when it is a semantic
	// version.
	Version string
}

// Server is every way in but the inbox. It is safe for concurrent use.
type Server struct {
	core    *core
	web     *web
	grpc    *grpc.Server
	health  *healthService
	gateway *gateway
	calls   callOptions
	drain   *drain
}

// New builds a server. The context gives values (a trace, say) to calls that
// come without a context of their own; its end does not end the server: Close
// does. The error says which generated handler could not be registered.
func New(ctx context.Context, o Options) (*Server, error) {
	d := newDrain()
	c := newCore(o, d)
	s := &Server{core: c, drain: d, health: newHealthService(o.Health)}
	s.grpc = newGRPCServer(o, c, s.health)
	gw, err := newGateway(ctx, s.grpc, o)
	if err != nil {
		return nil, err
	}
	s.gateway = gw
	s.web = newWeb(o, c, gw)
	s.calls = callOptions{
		base: context.WithoutCancel(ctx), core: c, names: o.Names, uploads: o.Uploads, log: o.Logger,
		propagator: o.Tracing.Propagator, tracer: o.Tracing.Provider.Tracer(tracerName), version: o.Version,
	}
	return s, nil
}

// HTTPHandler serves every HTTP path, those of the probes and /metrics included.
func (s *Server) HTTPHandler() http.Handler { return s.web.handler }

// GRPCServer has all services registered; the caller gives it a listener. Close
// stops it; GracefulStop before that lets calls finish.
func (s *Server) GRPCServer() *grpc.Server { return s.grpc }

// Drain refuses new calls and ends those that only watch or wait, which can go
// on at another replica; cause is what their callers are told, nil for "this
// replica is going down". Inline chats go on until Close. It may be called
// twice.
func (s *Server) Drain(cause error) {
	s.health.drain()
	s.drain.begin(shutdownFault(cause))
}

// Close cuts every call that is left with shutting_down, and stops the gRPC
// server. It may be called twice.
func (s *Server) Close() error {
	s.Drain(nil)
	s.drain.cut()
	s.grpc.Stop()
	return s.gateway.close()
}

func shutdownFault(cause error) *fault.Error {
	var f *fault.Error
	switch {
	case errors.As(cause, &f):
		return f
	case cause != nil:
		return fault.New(fault.ShuttingDown, "this replica is going down: %w", cause).WithRetryAfter(time.Second)
	default:
		return fault.New(fault.ShuttingDown, "this replica is going down; resume from the last event, or send a request that was not answered again").WithRetryAfter(time.Second)
	}
}
