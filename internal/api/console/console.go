// Package console serves the web pages of operators, under /console. It is a client of
// OperatorService: each page and each action is a call of its methods with the operator's
// own key, so that keys, limits and the audit log are those of the API. It keeps no state but
// the pages that are open.
package console

import (
	"embed"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// Path is where the console is. Everything of it is below.
const Path = "/console"

//go:embed templates static
var files embed.FS

// policy has a browser load nothing from elsewhere, and run no script but the console's own.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Options are what a Console works with. All are required but LocalKey.
type Options struct {
	Config  *config.Live
	Callers *core.Callers
	// Content serves a video of a tenant's job, whose id is in the path, and ChatEvents the
	// events of a chat.
	Content, ChatEvents func(w http.ResponseWriter, r *http.Request, tenant string)
	// GRPC reaches the services of this process.
	GRPC    grpc.ClientConnInterface
	Logger  *slog.Logger
	Version string
	// LocalKey is the key of core.LocalOperator: with it the console needs no login while no
	// operator's key is configured. It is for a process that only its own machine reaches.
	LocalKey string
	Names    subject.Space
	// GRPCAddr and NATSURL are where clients reach this process, for the commands that Try shows;
	// NATSURL is empty where that is not known.
	GRPCAddr, NATSURL string
	// WriteTimeout bounds one write to a browser.
	WriteTimeout time.Duration
}

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	Options
	api    genbusv1.OperatorServiceClient
	mux    *http.ServeMux
	origin *http.CrossOriginProtection
	live   *hub
	seen   *seen

	assets    assets
	templates map[string]*template.Template // by the names of pages; each has the parts "layout" and "main"
}

// New builds a console. It starts nothing. The error is about the files in the binary.
func New(o Options) (*Console, error) {
	assets, err := readAssets()
	if err != nil {
		return nil, err
	}
	templates, err := parse(assets)
	if err != nil {
		return nil, err
	}
	c := &Console{
		Options: o, api: genbusv1.NewOperatorServiceClient(o.GRPC), mux: http.NewServeMux(),
		origin: http.NewCrossOriginProtection(), seen: &seen{at: map[string]time.Time{}}, assets: assets, templates: templates,
	}
	c.live = newHub(c.Logger, func(v viewer) bool { return !c.isGone(v) })
	c.mux.HandleFunc("GET "+Path+"/static/{file}", c.asset)
	c.mux.HandleFunc("GET "+Path+"/login", c.showLogin)
	c.mux.HandleFunc("POST "+Path+"/login", c.login)
	c.mux.HandleFunc("POST "+Path+"/logout", c.logout)
	for pattern, v := range views {
		c.mux.HandleFunc("GET "+Path+pattern, func(w http.ResponseWriter, r *http.Request) { c.view(w, r, v) })
	}
	for pattern, a := range actions {
		c.mux.HandleFunc("POST "+Path+pattern, func(w http.ResponseWriter, r *http.Request) { c.act(w, r, a) })
	}
	c.mux.HandleFunc("POST "+Path+"/bulk", c.runBulk)
	c.mux.HandleFunc("GET "+Path+"/find", c.find)
	c.mux.HandleFunc("GET "+Path+"/jobs/video/{tenant}/{id}/content", c.bodiesOnly(o.Content))
	c.mux.HandleFunc("GET "+Path+"/jobs/chat/{tenant}/{id}/events", c.bodiesOnly(o.ChatEvents))
	c.mux.HandleFunc("GET "+Path+"/", c.missing)
	return c, nil
}

// ServeHTTP serves a page, or has an action done.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // an asset says otherwise
	// A stream, and what is served in many parts, moves it on.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(c.WriteTimeout)) // a test's recorder has none
	if err := c.origin.Check(r); err != nil {
		c.refuse(w, r, http.StatusForbidden, "The request came from another site, and nothing was done.")
		return
	}
	c.mux.ServeHTTP(w, r)
}

// Redirects reports whether a request for / is to be sent to the console: a browser's, while
// there is a console for it.
func (c *Console) Redirects(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && (len(c.Config.Now().OperatorKeys) > 0 || c.isLocal(r))
}

// isLocal reports whether a request needs no login: no key of anyone is configured, and it is
// one of this machine, as far as that can be told. The listener is at loopback. A page of
// another site that has its name resolve to loopback is told by the name, and what a proxy
// passes on by what most proxies add; one that adds nothing is told by nothing, which is why
// a service with keys of tenants, which others use, needs a login.
func (c *Console) isLocal(r *http.Request) bool {
	if cfg := c.Config.Now(); c.LocalKey == "" || len(cfg.OperatorKeys) > 0 || len(cfg.APIKeys) > 0 {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header[name] != nil { // also an empty one, to which a proxy adds a line
			return false
		}
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
