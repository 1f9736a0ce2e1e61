package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/subject"
)

// newGateway is the generated JSON interface under /genbus/v1/. It calls the gRPC
// services over a connection inside the process, so that their interceptors run.
func newGateway(ctx context.Context, conn *grpc.ClientConn) (http.Handler, error) {
	mux := gatewayMux()
	err := errors.Join(
		genbusv1.RegisterVideoServiceHandler(ctx, mux, conn),
		genbusv1.RegisterChatServiceHandler(ctx, mux, conn),
		genbusv1.RegisterModelServiceHandler(ctx, mux, conn),
	)
	if err != nil {
		return nil, fmt.Errorf("register the JSON gateway: %w", err)
	}
	return mux, nil
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
			return body.WithoutExecution(m), nil // it was decoded for this answer alone
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
func toHeader(key string) (string, bool) { return headerJobID, key == subject.HeaderJobID }

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
	f := unmatched(status, r, "")
	if f == nil {
		f = unmatched(http.StatusNotFound, r, "")
	}
	f.WriteHTTP(w)
}
