package api

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// pipeBuffer is the size of the in-process connection's buffer, in bytes.
const pipeBuffer = 256 << 10

// gateway is the generated JSON interface under /genbus/v1/. It calls the gRPC
// server over a connection inside the process, so that the interceptors run.
type gateway struct {
	http.Handler
	listener *bufconn.Listener
	conn     *grpc.ClientConn
	served   chan error
	// close is called after the server was stopped. It may be called twice.
	close func() error
}

func newGateway(ctx context.Context, server *grpc.Server, o Options) (*gateway, error) {
	listener := bufconn.Listen(pipeBuffer)
	conn, err := grpc.NewClient("passthrough:///genbus",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithTracerProvider(o.Tracing.Provider), otelgrpc.WithPropagators(o.Tracing.Propagator))),
		// The server's limits count; a reply that it sends must arrive.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fmt.Errorf("in-process gRPC connection: %w", err)
	}
	mux := gatewayMux()
	err = errors.Join(
		genbusv1.RegisterVideoServiceHandler(ctx, mux, conn),
		genbusv1.RegisterChatServiceHandler(ctx, mux, conn),
		genbusv1.RegisterModelServiceHandler(ctx, mux, conn),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register the JSON gateway: %w", err), conn.Close())
	}
	g := &gateway{Handler: mux, listener: listener, conn: conn, served: make(chan error, 1)}
	g.close = sync.OnceValue(g.end)
	go func() { g.served <- server.Serve(listener) }()
	return g, nil
}

func (g *gateway) end() error {
	err := g.conn.Close()
	if served := <-g.served; !errors.Is(served, grpc.ErrServerStopped) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, g.listener.Close())
}

func gatewayMux() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions: protojson.MarshalOptions{UseProtoNames: true},
		}),
		runtime.WithIncomingHeaderMatcher(toMetadata),
		runtime.WithOutgoingHeaderMatcher(toHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithErrorHandler(writeGatewayError),
		runtime.WithRoutingErrorHandler(writeRoutingError),
		runtime.WithForwardResponseRewriter(func(_ context.Context, m proto.Message) (any, error) {
			return WithoutExecution(m), nil // it was decoded for this answer alone
		}),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithWriteContentLength(),
	)
}

// toMetadata chooses the headers that reach the services; the gateway passes
// Authorization on by itself.
func toMetadata(header string) (string, bool) {
	switch header {
	case "Idempotency-Key", "Genbus-Labels", "X-Request-Id", "Traceparent", "Tracestate":
		return header, true
	}
	return "", false
}

// toHeader chooses the metadata that reach the client.
func toHeader(key string) (string, bool) { return headerJobID, key == mdJobID }

// WithoutExecution drops from an answer what only genbus needs: it is no part of any
// HTTP answer. It changes the message itself.
func WithoutExecution(m proto.Message) proto.Message {
	switch m := m.(type) {
	case interface{ GetTask() *genbusv1.VideoTask }:
		dropVideo(m.GetTask())
	case interface{ GetChat() *genbusv1.Chat }:
		dropChat(m.GetChat())
	case *genbusv1.ListVideoTasksResponse:
		for _, t := range m.GetTasks() {
			dropVideo(t)
		}
	}
	return m
}

func dropVideo(t *genbusv1.VideoTask) {
	if t != nil {
		t.Execution = nil
	}
}

func dropChat(c *genbusv1.Chat) {
	if c != nil {
		c.Execution = nil
	}
}

// writeGatewayError answers with the error of a service, or of the gateway's own
// decoding.
func writeGatewayError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	f := fromStatus(err)
	if f.JobID != "" {
		w.Header()[headerJobID] = []string{f.JobID}
	}
	f.WriteHTTP(w)
}

// writeRoutingError is for paths that our mux matched and the gateway did not,
// such as one with an escaped slash in an id.
func writeRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	f := unmatched(status, r)
	if f == nil {
		f = unmatched(http.StatusNotFound, r)
	}
	f.WriteHTTP(w)
}
