// Package httpapi is the HTTP adapter of the core. It serves the OpenAI-style API, the vendors' own
// APIs, server-sent events, and the generated gateway under /genbus/v1/. It does not open a
// listener.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/proto"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// Pages serves the operator console at all paths under /console.
type Pages interface {
	http.Handler
	// Redirects reports whether to redirect a request for / to the console.
	Redirects(r *http.Request) bool
}

// Options configures a Handler. All fields except Console and Tracing.Endpoint are required.
type Options struct {
	Core   *core.Core
	Config *config.Live
	Names  subject.Space
	Routes *routes.Table
	// Console serves the operator console. Nil disables it.
	Console Pages
	// GRPC connects the gateway to the gRPC services of this process.
	GRPC    *grpc.ClientConn
	Health  *telemetry.Health
	Metrics *telemetry.Metrics
	Tracing telemetry.Tracing
	Logger  *slog.Logger
}

// Handler serves every HTTP path, including probes and /metrics.
type Handler struct {
	core       *core.Core
	cfg        *config.Live
	routeTable *routes.Table
	gateway    http.Handler
	metrics    *telemetry.Metrics
	propagator propagation.TextMapPropagator
	log        *slog.Logger
	mux        *patterns
	queries    map[string]parameters                     // by pattern
	bodies     map[string]protoreflect.MessageDescriptor // by pattern of the gateway's paths
	surfaces   map[string]upstream.Surface               // by segment
	origins    []string                                  // of web pages that may call the API
	// crossOrigin refuses calls from pages of other origins. It is used without api_keys.
	crossOrigin *http.CrossOriginProtection
	root        http.Handler
}

// Paths of the probes, which need no key and are not traced.
const (
	pathHealthz = "/healthz"
	pathReadyz  = "/readyz"
	pathJobs    = "/readyz/jobs"
	pathMetrics = "/metrics"
)

// Paths of the API description, which is public and needs no key.
const (
	pathOpenAPI  = "/openapi.json"
	pathAsyncAPI = "/asyncapi.json"
	pathDocs     = "/docs"

	pathDescriptors = "/genbus/v1/descriptor.binpb"
	pathProto       = "/genbus/v1/proto/{file}"
)

// New returns a Handler. It uses ctx only to register the generated handlers. It fails if they
// cannot be registered or the HTTP rules cannot be read.
func New(ctx context.Context, o Options) (*Handler, error) {
	gateway, err := newGateway(ctx, o.GRPC, o.Logger)
	if err != nil {
		return nil, err
	}
	rules, err := readRules()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		queries: queriesOf(rules), core: o.Core, cfg: o.Config, routeTable: o.Routes, gateway: gateway, metrics: o.Metrics, propagator: o.Tracing.Propagator,
		log: o.Logger, mux: &patterns{ServeMux: http.NewServeMux()},
	}
	h.mux.Handle("GET "+pathHealthz, o.Health.Healthz())
	h.mux.Handle("GET "+pathReadyz, o.Health.Readyz())
	h.mux.Handle("GET "+pathJobs, o.Health.JobsReadyz())
	h.mux.Handle("GET "+pathMetrics, o.Metrics.Handler())
	served := o.Config.Now().HTTP // changes to these settings need a restart
	h.origins = served.CORS.Origins
	if h.crossOrigin, err = crossOrigin(h.origins); err != nil {
		return nil, err
	}
	site := contract.NewSite(contract.Options{Segments: served.Segments, PublicURL: served.PublicURL, Names: o.Names})
	h.mux.Handle("GET "+pathOpenAPI, site.OpenAPI())
	h.mux.Handle("GET "+pathAsyncAPI, site.AsyncAPI())
	h.mux.Handle("GET "+pathDescriptors, site.Descriptors())
	h.mux.HandleFunc("GET "+pathProto, serveProto)
	h.mux.Handle("GET "+pathDocs, site.Page())
	h.mux.Handle("GET /favicon.ico", site.Icon())
	if o.Console != nil {
		h.serveConsole(o.Console)
	}
	h.routes(rules)
	h.bulkRoutes(o.GRPC)
	h.root = http.HandlerFunc(h.serve)
	// Without a collector, the wrapper would only cost time. The caller's trace context is
	// propagated either way.
	if o.Tracing.Endpoint != "" {
		h.root = otelhttp.NewHandler(h.root, "http", otelhttp.WithTracerProvider(o.Tracing.Provider),
			otelhttp.WithPropagators(o.Tracing.Propagator), otelhttp.WithFilter(notProbe))
	}
	return h, nil
}

// serveProto serves a source file of the contract.
func serveProto(w http.ResponseWriter, r *http.Request) {
	source, err := proto.Sources.ReadFile("genbus/v1/" + r.PathValue("file"))
	if err != nil {
		unmatched(http.StatusNotFound, r, "").WriteHTTP(w)
		return
	}
	w.Header()["Content-Type"] = []string{"text/plain; charset=utf-8"}
	_, _ = w.Write(source) // the client may have disconnected
}

// serveConsole mounts the operator console, which has its own login, and redirects browsers from
// the root to it.
func (h *Handler) serveConsole(pages Pages) {
	h.mux.Handle("GET /console", pages)
	h.mux.Handle("GET /console/", pages)
	h.mux.Handle("POST /console/", pages)
	h.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if pages.Redirects(r) {
			http.Redirect(w, r, "/console", http.StatusFound)
			return
		}
		unmatched(http.StatusNotFound, r, "").WriteHTTP(w)
	})
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.root.ServeHTTP(w, r) }

func notProbe(r *http.Request) bool {
	switch r.URL.Path {
	case pathHealthz, pathReadyz, pathJobs, pathMetrics:
		return false
	}
	return true
}

// routes mounts every path that needs a key. It mounts the gateway's paths individually so that the
// mux knows their methods.
func (h *Handler) routes(rules []rule) {
	h.handle("POST /v1/video/generations", h.createVideo)
	h.handle("GET /v1/video/generations/{id}", h.getVideo)
	h.handle("GET /v1/video/generations/{id}/events", h.videoEvents)
	h.handle("POST /v1/videos", h.createVideoObject)
	h.handle("GET /v1/videos", h.listVideoObjects)
	h.handle("GET /v1/videos/{id}", h.getVideoObject)
	h.handle("DELETE /v1/videos/{id}", h.deleteVideoObject)
	h.handleFor("GET /v1/videos/{id}/content", (*exchange).byKeyOrSignature, h.getContent) // answers to vendors' clients link to it
	h.vendorRoutes()
	h.handle("POST /v1/chat/completions", h.chatCompletions)
	h.handle("GET /v1/chat/completions", h.listChats)
	h.handle("GET /v1/models", h.listModels)
	h.handle("GET /v1/models/{model...}", h.getModel)

	h.handle("GET /genbus/v1/videos/{id}/events", h.videoEvents)
	h.handle("GET /genbus/v1/videos/{id}/content", h.getContent)
	h.handle("GET /genbus/v1/chats/{id}/events", h.chatEvents)
	h.bodies = map[string]protoreflect.MessageDescriptor{}
	for _, r := range rules {
		h.bodies[r.pattern()] = r.body
		if r.forOperators() {
			h.mux.HandleFunc(r.pattern(), h.viaOperator)
		} else {
			h.mux.HandleFunc(r.pattern(), h.viaGateway)
		}
	}
}

// serve does what all requests need and then calls the mux.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	res := h.asResponse(w, r)
	id := core.RequestID(r.Header["X-Request-Id"])
	r.Header["X-Request-Id"] = id
	w.Header()["X-Request-Id"] = id
	h.expectBody(w, r)
	endAfterChunks(w, r)
	defer h.finish(res, begin)
	if h.share(res, r) {
		return
	}
	if part := h.emptyPart(r); part != "" {
		res.refuse(plain{res}, errcode.New(errcode.NotFound, "the %s in %s is empty", part, errcode.Clip(r.URL.Path, 256)))
		return
	}
	h.mux.ServeHTTP(res, r)
}

// emptyPart returns the name of a path parameter that is empty in the request, or an empty string
// if there is none. The mux would redirect such a path to one without the empty segment, where
// another segment would be taken for the ID. Other double slashes, such as those caused by a base
// URL with a trailing slash, are left to the mux.
func (h *Handler) emptyPart(r *http.Request) string {
	if !strings.Contains(r.URL.Path, "//") {
		return ""
	}
	filled := &url.URL{Path: strings.ReplaceAll(r.URL.Path, "//", "/-/")}
	_, pattern := h.mux.Handler(&http.Request{Method: r.Method, Host: r.Host, URL: filled})
	switch {
	case strings.Contains(pattern, "{id}"):
		return "id"
	case strings.Contains(pattern, "{sequence}"):
		return "sequence"
	case strings.Contains(pattern, "{kind}/{name}"):
		return "kind or the name"
	}
	return ""
}

// endAfterChunks closes the connection after a request with a chunked body. net/http silently
// ignores a Content-Length in such a request. A proxy that uses it instead sees the request end
// elsewhere, so the bytes after the chunked body must not be read as the next request (RFC 9112,
// 6.1).
func endAfterChunks(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header()["Connection"] = []string{"close"}
	}
}

// finish counts the request. If the handler panicked, finish answers with an error or, if the
// answer has already begun, aborts the connection.
func (h *Handler) finish(res *response, begin time.Time) {
	p := recover()
	begun := res.status != 0
	abort := isAbort(p)
	if p != nil && !abort {
		h.log.ErrorContext(res.r.Context(), "panic in an HTTP handler", telemetry.KeyRequestID, res.Header().Get("X-Request-Id"),
			telemetry.KeyRoute, res.r.Pattern, telemetry.KeyError, p, "stack", string(debug.Stack()))
		if !begun {
			res.refuse(res, core.PanicFault())
		}
	}
	status := res.status
	switch {
	case status == 0:
		status = http.StatusOK // net/http writes it if the handler did not
	case res.disconnected && (p == nil || abort):
		status = errcode.MeaningOf(errcode.CallerGone).HTTP
	}
	h.metrics.HTTPRequest(res.r.Pattern, status, time.Since(begin))
	if abort || p != nil && begun {
		panic(http.ErrAbortHandler)
	}
}

// isAbort reports whether p is the panic by which a handler aborts its answer.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// handle mounts a handler that needs an API key.
func (h *Handler) handle(pattern string, serve func(*exchange) error) {
	h.handleFor(pattern, (*exchange).byKey, serve)
}

// handleFor mounts a handler that needs a tenant. If the handler returns an error, the error
// becomes the answer, unless the handler has already begun to answer.
func (h *Handler) handleFor(pattern string, identify func(*exchange) (string, error), serve func(*exchange) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{response: h.asResponse(w, r), r: r, h: h}
		if err := x.run(identify, serve); err != nil {
			x.fail(err)
		}
	})
}

// asResponse returns w itself if it is already a *response, as it is behind the mux. Otherwise it
// wraps w.
func (h *Handler) asResponse(w http.ResponseWriter, r *http.Request) *response {
	if res, ok := w.(*response); ok {
		return res
	}
	return &response{ResponseWriter: w, r: r, timeout: h.core.WriteTimeout, surface: h.surfaceOf(r.URL.Path)}
}
