package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
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
		genbusv1.RegisterOperatorServiceHandler(ctx, mux, conn),
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
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved), // of one segment that is all: see matchedPath
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
func toHeader(key string) (string, bool) {
	switch key {
	case subject.HeaderJobID:
		return headerJobID, true
	case subject.HeaderNotice:
		return headerNotice, true
	}
	return "", false
}

// writeGatewayError answers with the error of a service, or of the gateway's own
// decoding.
func writeGatewayError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	f := errcode.FromStatus(err)
	setRefusal(w.Header(), r, f)
	f.WriteHTTP(w)
}

// writeRoutingError is for paths that our mux matched and the gateway did not: there are
// none as long as the patterns are the rules of proto/genbus/v1/http.yaml.
func writeRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	f := unmatched(status, r, "")
	if f == nil {
		f = unmatched(http.StatusNotFound, r, "")
	}
	f.WriteHTTP(w)
}

// viaGateway answers a tenant's call with the generated gateway.
func (h *Handler) viaGateway(w http.ResponseWriter, r *http.Request) {
	h.forward(w, r, (*exchange).enterGateway)
}

// forward answers with the generated gateway. It reads the body first, within our
// limits and only for callers whom enter lets in; the interceptors behind it
// authenticate once more.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, enter func(*exchange) error) {
	x := &exchange{response: h.asResponse(w, r), r: r, h: h}
	if err := x.prepareGateway(enter); err != nil {
		x.fail(err)
		return
	}
	h.gateway.ServeHTTP(x.response, x.r)
}

// enterGateway is enter for a call by the gateway.
func (x *exchange) enterGateway() error {
	// The gateway drops headers that gRPC cannot carry without a word; a lost
	// idempotency key would be a second job.
	for _, name := range []string{"Idempotency-Key", "Genbus-Labels"} {
		if !printableASCII(x.r.Header.Get(name)) {
			return errcode.Invalid([]errcode.Violation{{Field: name, Description: "must be printable ASCII"}})
		}
	}
	return x.enter((*exchange).byKey)
}

func (x *exchange) prepareGateway(enter func(*exchange) error) error {
	x.r.Header.Del("Te") // no trailers
	if err := enter(x); err != nil {
		return err
	}
	r := x.r.Clone(x.r.Context())
	r.URL.RawPath = matchedPath(x.r)
	switch x.r.Method {
	case http.MethodHead:
		// The gateway knows GET only; net/http leaves the body out.
		r.Method = http.MethodGet
	case http.MethodPost:
		raw, err := x.body()
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
	}
	x.r = r
	return nil
}

// matchedPath is the path in the form in which the gateway finds in it what the mux has
// found: the pattern's own words as they are, and the values of its parameters escaped, as a
// request id may hold a slash. Bytes that are not UTF-8, which Protobuf cannot carry, are
// replaced: no id and no name has any, so that the value is as unknown as before.
func matchedPath(r *http.Request) string {
	_, path, _ := strings.Cut(r.Pattern, " ")
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			value := r.PathValue(strings.Trim(s, "{}"))
			segments[i] = url.PathEscape(strings.ToValidUTF8(value, string(utf8.RuneError)))
		}
	}
	return strings.Join(segments, "/")
}

func printableASCII(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}
