// Package httpapi serves HTTP over the core: the paths of the interface document and of vendors,
// server-sent events, and the generated gateway under /genbus/v1/. It opens no listener.
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

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// Pages serves the pages of operators, all paths under /console.
type Pages interface {
	http.Handler
	// Redirects reports whether to redirect a request for / to the pages.
	Redirects(r *http.Request) bool
}

// Options configures a Handler. All fields except Console and Tracing.Endpoint are required.
type Options struct {
	Core   *core.Core
	Config *config.Live
	Names  subject.Space
	Routes *routes.Table
	// Console serves the pages of operators; nil disables them.
	Console Pages
	// GRPC reaches the gRPC services of this process, for the gateway.
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
	queries    map[string]parameters // by pattern
	root       http.Handler
}

// Paths of the probes, which need no key and are not traced.
const (
	pathHealthz = "/healthz"
	pathReadyz  = "/readyz"
	pathJobs    = "/readyz/jobs"
	pathMetrics = "/metrics"
)

// Paths of the contract, which need no key because it holds no data.
const (
	pathOpenAPI  = "/openapi.json"
	pathAsyncAPI = "/asyncapi.json"
	pathDocs     = "/docs"
)

// New returns a Handler. ctx supplies values for gateway calls without their own context. An error
// names the generated handler that could not be registered.
func New(ctx context.Context, o Options) (*Handler, error) {
	gateway, err := newGateway(ctx, o.GRPC)
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
	served := o.Config.Now().HTTP // changes to the following need a restart
	site := contract.NewSite(contract.Options{Segments: served.Segments, PublicURL: served.PublicURL, Names: o.Names})
	h.mux.Handle("GET "+pathOpenAPI, site.OpenAPI())
	h.mux.Handle("GET "+pathAsyncAPI, site.AsyncAPI())
	h.mux.Handle("GET "+pathDocs, site.Page())
	if o.Console != nil {
		h.serveConsole(o.Console)
	}
	h.routes(rules)
	h.bulkRoutes(o.GRPC)
	h.root = http.HandlerFunc(h.serve)
	// Without a collector the wrapper would only cost time. Callers' trace contexts are passed on
	// in any case.
	if o.Tracing.Endpoint != "" {
		h.root = otelhttp.NewHandler(h.root, "http", otelhttp.WithTracerProvider(o.Tracing.Provider),
			otelhttp.WithPropagators(o.Tracing.Propagator), otelhttp.WithFilter(notProbe))
	}
	return h, nil
}

// serveConsole mounts the pages of operators, which have a separate login, and redirects browsers
// from the root to them.
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

// routes mounts every path that needs a key. It mounts the gateway's paths one by one, so that the
// mux knows their methods.
func (h *Handler) routes(rules []rule) {
	h.handle("POST /v1/video/generations", h.createVideo)
	h.handle("GET /v1/video/generations/{id}", h.getVideo)
	h.handle("GET /v1/video/generations/{id}/events", h.videoEvents)
	h.handle("POST /v1/videos", h.createVideoObject)
	h.handle("GET /v1/videos", h.listVideoObjects)
	h.handle("GET /v1/videos/{id}", h.getVideoObject)
	h.handle("DELETE /v1/videos/{id}", h.deleteVideoObject)
	h.handleFor("GET /v1/videos/{id}/content", (*exchange).byKeyOrSignature, h.getContent) // answers for vendors link to it
	h.vendorRoutes()
	h.handle("POST /v1/chat/completions", h.chatCompletions)
	h.handle("GET /v1/models", h.listModels)
	h.handle("GET /v1/models/{model...}", h.getModel)

	h.handle("GET /genbus/v1/videos/{id}/events", h.videoEvents)
	h.handle("GET /genbus/v1/videos/{id}/content", h.getContent)
	h.handle("GET /genbus/v1/chats/{id}/events", h.chatEvents)
	for _, r := range rules {
		if r.forOperators() {
			h.mux.HandleFunc(r.pattern(), h.viaOperator)
		} else {
			h.mux.HandleFunc(r.pattern(), h.viaGateway)
		}
	}
}

// serve handles every request before the mux.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	res := h.asResponse(w, r)
	id := core.RequestID(r.Header["X-Request-Id"])
	r.Header["X-Request-Id"] = id
	w.Header()["X-Request-Id"] = id
	h.expectBody(w, r)
	endAfterChunks(w, r)
	defer h.finish(res, begin)
	if part := h.emptyPart(r); part != "" {
		errcode.New(errcode.NotFound, "the %s in %s is empty", part, errcode.Clip(r.URL.Path, 256)).WriteHTTP(plain{res})
		return
	}
	h.mux.ServeHTTP(res, r)
}

// emptyPart names the empty part of a path that would match one of ours if the part were filled, or
// returns an empty string. The mux would redirect such a path to one without the part, in which
// another part becomes the id. Other double slashes, such as after a base URL that ends in one, are
// left to the mux.
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

// endAfterChunks closes the connection after a request with a chunked body. The request may also
// have had a Content-Length, which net/http drops silently. A proxy that used it sees a different
// end of the request, and the bytes after it must not count as the next request (RFC 9112, 6.1).
func endAfterChunks(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header()["Connection"] = []string{"close"}
	}
}

// finish counts the request and turns a panic into an answer. It cuts off an answer that has begun.
func (h *Handler) finish(res *response, begin time.Time) {
	p := recover()
	begun := res.status != 0
	abort := isAbort(p)
	if p != nil && !abort {
		h.log.ErrorContext(res.r.Context(), "panic in an HTTP handler", telemetry.KeyRequestID, res.Header().Get("X-Request-Id"),
			telemetry.KeyRoute, res.r.Pattern, telemetry.KeyError, p, "stack", string(debug.Stack()))
		if !begun {
			core.PanicFault().WriteHTTP(res)
		}
	}
	status := res.status
	switch {
	case status == 0:
		status = http.StatusOK // net/http writes it if the handler did not
	case res.left && (p == nil || abort):
		status = errcode.MeaningOf(errcode.CallerGone).HTTP
	}
	h.metrics.HTTPRequest(res.r.Pattern, status, time.Since(begin))
	if abort || p != nil && begun {
		panic(http.ErrAbortHandler)
	}
}

// isAbort recognizes the panic with which a handler cuts off its answer.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// handle mounts a handler that needs an API key.
func (h *Handler) handle(pattern string, serve func(*exchange) error) {
	h.handleFor(pattern, (*exchange).byKey, serve)
}

// handleFor mounts a handler that needs a tenant. An error becomes the answer, unless the handler
// has begun one.
func (h *Handler) handleFor(pattern string, identify func(*exchange) (string, error), serve func(*exchange) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{response: h.asResponse(w, r), r: r, h: h}
		if err := x.run(identify, serve); err != nil {
			x.fail(err)
		}
	})
}

// asResponse returns w if it is already a *response, as behind the mux, else a new one.
func (h *Handler) asResponse(w http.ResponseWriter, r *http.Request) *response {
	if res, ok := w.(*response); ok {
		return res
	}
	return &response{ResponseWriter: w, r: r, timeout: h.core.WriteTimeout}
}
