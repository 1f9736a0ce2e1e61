package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// newGateway returns the generated JSON gateway under /genbus/v1/. It calls the gRPC services over
// the in-process connection so that the interceptor runs.
func newGateway(ctx context.Context, conn *grpc.ClientConn, log *slog.Logger) (http.Handler, error) {
	mux := gatewayMux(log)
	err := errors.Join(
		genbusv1grpc.RegisterVideoServiceHandler(ctx, mux, conn),
		genbusv1grpc.RegisterChatServiceHandler(ctx, mux, conn),
		genbusv1grpc.RegisterModelServiceHandler(ctx, mux, conn),
		genbusv1grpc.RegisterOperatorServiceHandler(ctx, mux, conn),
	)
	if err != nil {
		return nil, fmt.Errorf("register the JSON gateway: %w", err)
	}
	return mux, nil
}

func gatewayMux(log *slog.Logger) *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{
			MarshalOptions: protojson.MarshalOptions{UseProtoNames: true},
		}),
		runtime.WithIncomingHeaderMatcher(toMetadata),
		runtime.WithOutgoingHeaderMatcher(toHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithErrorHandler(gatewayErrors(log)),
		runtime.WithRoutingErrorHandler(writeRoutingError),
		runtime.WithForwardResponseRewriter(func(_ context.Context, m proto.Message) (any, error) {
			return body.WithoutExecution(m), nil // safe to modify, because it was decoded for this answer only
		}),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithWriteContentLength(),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved), // unescapes single segments completely; see matchedPath
	)
}

// toMetadata selects the request headers that are passed to the services. The gateway always passes
// Authorization.
func toMetadata(header string) (string, bool) {
	switch header {
	case "Idempotency-Key", "Genbus-Labels", "X-Request-Id", "Traceparent", "Tracestate":
		return header, true
	}
	return "", false
}

// toHeader selects the response metadata that is passed to the client.
func toHeader(key string) (string, bool) {
	switch key {
	case subject.HeaderJobID:
		return headerJobID, true
	case subject.HeaderNotice:
		return headerNotice, true
	}
	return "", false
}

// gatewayErrors returns a handler that answers with an error returned by a service, by gRPC or by
// the gateway's decoder or encoder. Services log their own failures. Those of a library are logged
// here, because the answer does not contain their text.
func gatewayErrors(log *slog.Logger) runtime.ErrorHandlerFunc {
	return func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
		f := grpcstatus.Error(err)
		if !grpcstatus.Ours(err) {
			f = inOurWords(f, r)
			if level, logged := core.LogLevel(ctx, f); logged {
				log.Log(ctx, level, "gateway call failed", telemetry.KeyRequestID, w.Header().Get("X-Request-Id"),
					telemetry.KeyRoute, r.Pattern, telemetry.KeyError, err)
			}
		}
		setRefusal(w.Header(), r, f)
		f.WriteHTTP(w)
	}
}

// inOurWords returns an error for one that no service of genbus returned, whose text is that of a
// library.
func inOurWords(f *errcode.Error, r *http.Request) *errcode.Error {
	sent, ok := r.Body.(*messageBody)
	switch {
	case f.Code == errcode.InvalidRequest && ok:
		return errcode.From(misfit(r.Pattern, sent.message, sent.raw))
	case f.Code == errcode.BodyTooLarge:
		return errcode.New(f.Code, "the message is larger than grpc.max_message_bytes allows; send a URL instead of the data")
	default:
		return errcode.New(f.Code, "%s", f.Meaning().Means())
	}
}

// writeRoutingError handles paths that our mux matches but the gateway does not. There are none as
// long as the mux's patterns agree with the rules in proto/genbus/v1/http.yaml.
func writeRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	f := unmatched(status, r, "")
	if f == nil {
		f = unmatched(http.StatusNotFound, r, "")
	}
	f.WriteHTTP(w)
}

// viaGateway passes a tenant's call to the generated gateway.
func (h *Handler) viaGateway(w http.ResponseWriter, r *http.Request) {
	h.forward(w, r, (*exchange).enterGateway)
}

// forward passes a call to the generated gateway. It first calls enter, which authenticates the
// caller, and reads the body within our limits. The gRPC interceptor authenticates the caller
// again.
func (h *Handler) forward(w http.ResponseWriter, r *http.Request, enter func(*exchange) error) {
	x := &exchange{response: h.asResponse(w, r), r: r, h: h}
	if err := x.prepareGateway(enter); err != nil {
		x.fail(err)
		return
	}
	h.gateway.ServeHTTP(x.response, x.r)
}

// enterGateway checks the headers of a gateway call and identifies its tenant.
func (x *exchange) enterGateway() error {
	// The gateway silently drops headers that gRPC cannot carry. If it dropped the idempotency key,
	// a retry would create a second job.
	for _, name := range []string{"Idempotency-Key", "Genbus-Labels"} {
		if !printableASCII(x.r.Header.Get(name)) {
			return errcode.Invalid([]errcode.Violation{{Field: name, Description: "must be printable ASCII"}})
		}
	}
	return x.enter((*exchange).byKey)
}

func (x *exchange) prepareGateway(enter func(*exchange) error) error {
	x.r.Header.Del("Te")           // no trailers
	x.r.Header.Del("Grpc-Timeout") // clients of HTTP disconnect instead
	if err := enter(x); err != nil {
		return err
	}
	if text := x.r.PathValue("sequence"); text != "" {
		if _, err := runtime.Uint64(text); err != nil {
			return errcode.Invalid([]errcode.Violation{{Field: "sequence", Description: mustBe(body.Uint64Rule, text)}})
		}
	}
	r := x.r.Clone(x.r.Context())
	r.URL.RawPath = matchedPath(x.r)
	switch x.r.Method {
	case http.MethodHead:
		// The gateway supports only GET. For HEAD, net/http omits the body.
		r.Method = http.MethodGet
	case http.MethodPost:
		raw, err := x.body()
		if err != nil {
			return err
		}
		m := x.h.bodies[x.r.Pattern]
		if err := checkMessageBody(m, raw); err != nil {
			return err
		}
		r.Body = &messageBody{Reader: bytes.NewReader(raw), raw: raw, message: m}
	}
	x.r = r
	return nil
}

// matchedPath returns the path with the parameters that the mux found, so that the gateway finds
// the same ones. It escapes the values because a request ID may contain a slash. It also replaces
// invalid UTF-8, which Protobuf cannot carry. No ID or name contains invalid UTF-8, so the changed
// value still matches nothing.
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
