package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/genbus/genbus/internal/telemetry"
)

// pipeBuffer is the buffer size of the in-process connection in bytes.
const pipeBuffer = 256 << 10

// local is an in-process connection to the server. Calls over it pass through the interceptor.
type local struct {
	listener *bufconn.Listener
	conn     *grpc.ClientConn
	served   chan error
	// close must be called after the server has stopped. It may be called more than once.
	close func() error
}

func newLocal(server *grpc.Server, tracing telemetry.Tracing) (*local, error) {
	listener := bufconn.Listen(pipeBuffer)
	conn, err := grpc.NewClient("passthrough:///genbus",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithTracerProvider(tracing.Provider), otelgrpc.WithPropagators(tracing.Propagator))),
		// The server enforces its own limits. This side must accept every reply.
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)),
	)
	if err != nil {
		return nil, fmt.Errorf("in-process gRPC connection: %w", err)
	}
	l := &local{listener: listener, conn: conn, served: make(chan error, 1)}
	l.close = sync.OnceValue(l.end)
	go func() { l.served <- server.Serve(listener) }()
	return l, nil
}

func (l *local) end() error {
	err := l.conn.Close()
	if served := <-l.served; !errors.Is(served, grpc.ErrServerStopped) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, l.listener.Close())
}

// inProcess reports whether a call came over the in-process connection.
func inProcess(from net.Addr) bool { return from.Network() == "bufconn" }
