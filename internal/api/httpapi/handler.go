// Package httpapi serves HTTP over the core: the paths of the interface document and
// of vendors, streams of server-sent events, and the generated gateway under
// /genbus/v1/. It opens no listener.
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

// Pages are those of operators, for all paths under /console.
type Pages interface {
	http.Handler
	// Redirects reports whether a request for / is sent there.
	Redirects(r *http.Request) bool
}

// Options are what a Handler works with. All are required, except Console and
// Tracing.Endpoint.
type Options struct {
	Core   *core.Core
	Config *config.Live
	Names  subject.Space
	Routes *routes.Table
	// Console serves the pages of operators; nil for none.
	Console Pages
	// GRPC reaches the gRPC services of this process; the gateway calls them.
	GRPC    *grpc.ClientConn
	Health  *telemetry.Health
	Metrics *telemetry.Metrics
	Tracing telemetry.Tracing
	Logger  *slog.Logger
}

// Handler serves every HTTP path, those of the probes and /metrics included. It is
// the mux, and what every request goes through.
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

// Paths of the contract, which need no key either: it holds no data.
const (
	pathOpenAPI  = "/openapi.json"
	pathAsyncAPI = "/asyncapi.json"
	pathDocs     = "/docs"
)

// New builds a handler. The context gives values to calls of the gateway that come
// without a context of their own. The error says which generated handler could not be
// registered.
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
	served := o.Config.Now().HTTP // what follows needs a restart to change
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
	// Without a collector the wrapper would only cost; contexts of callers are
	// passed on all the same.
	if o.Tracing.Endpoint != "" {
		h.root = otelhttp.NewHandler(h.root, "http", otelhttp.WithTracerProvider(o.Tracing.Provider),
			otelhttp.WithPropagators(o.Tracing.Propagator), otelhttp.WithFilter(notProbe))
	}
	return h, nil
}

// serveConsole mounts the pages of operators, which have their own login, and leads browsers
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

// routes mounts every path that needs a key. The generated gateway's paths are mounted one by
// one, so that the mux knows their methods.
func (h *Handler) routes(rules []rule) {
	h.handle("POST /v1/video/generations", h.createVideo)
	h.handle("GET /v1/video/generations/{id}", h.getVideo)
	h.handle("GET /v1/video/generations/{id}/events", h.videoEvents)
	h.handle("POST /v1/videos", h.createVideoObject)
	h.handle("GET /v1/videos", h.listVideoObjects)
	h.handle("GET /v1/videos/{id}", h.getVideoObject)
	h.handle("DELETE /v1/videos/{id}", h.deleteVideoObject)
	h.handleFor("GET /v1/videos/{id}/content", (*exchange).byKeyOrSignature, h.getContent) // vendors' answers link to it
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

// serve is what every request goes through.
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

// emptyPart names what is empty in a path that would be one of ours if its empty part were,
// say, an id; it is empty for other paths. The mux redirects such a path to one without that
// part, in which another part is the id. Two slashes at other places, as of a base URL that
// ends in one, are left to the mux.
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

// endAfterChunks makes a request whose body came in chunks the last of its
// connection. It may have had a Content-Length too, which net/http drops
// silently; a proxy that used it sees another end of the request, and what comes
// after it must not be taken for the next request (RFC 9112, 6.1).
func endAfterChunks(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		w.Header()["Connection"] = []string{"close"}
	}
}

// finish counts the request, and turns a panic into an answer. An answer that
// has begun can only be cut off.
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
		status = http.StatusOK // net/http writes it when the handler has not
	case res.left && (p == nil || abort):
		status = errcode.MeaningOf(errcode.CallerGone).HTTP
	}
	h.metrics.HTTPRequest(res.r.Pattern, status, time.Since(begin))
	if abort || p != nil && begun {
		panic(http.ErrAbortHandler)
	}
}

// isAbort tells the panic by which a handler cuts its answer off.
func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// handle mounts a handler that needs an API key.
func (h *Handler) handle(pattern string, serve func(*exchange) error) {
	h.handleFor(pattern, (*exchange).byKey, serve)
}

// handleFor mounts a handler that needs a tenant. Its error is the answer, unless
// it has begun one.
func (h *Handler) handleFor(pattern string, identify func(*exchange) (string, error), serve func(*exchange) error) {
	h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{response: h.asResponse(w, r), r: r, h: h}
		if err := x.run(identify, serve); err != nil {
			x.fail(err)
		}
	})
}

// asResponse is the response to a request, also behind the mux, which hides our writer's type.
func (h *Handler) asResponse(w http.ResponseWriter, r *http.Request) *response {
	if res, ok := w.(*response); ok {
		return res
	}
	return &response{ResponseWriter: w, r: r, timeout: h.core.WriteTimeout}
}
