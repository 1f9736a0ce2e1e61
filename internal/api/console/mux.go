package console

import (
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
)

// policy is the Content-Security-Policy. It lets a browser load only the console's own files. A blob
// is a video that Try fetched with a tenant key.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self' blob:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// New returns a Console. It starts nothing and fails only if the embedded files are invalid.
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
		Options: o, api: genbusv1grpc.NewOperatorServiceClient(o.GRPC), mux: http.NewServeMux(),
		origin: http.NewCrossOriginProtection(), seen: &seen{at: map[string]time.Time{}}, assets: assets, templates: templates,
	}
	c.live = newHub(c.Logger, func(v viewer) bool { return !c.isRevoked(v) })
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

// ServeHTTP serves a page or runs an action.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // overridden for assets
	// Streams and content served in parts extend this deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(c.WriteTimeout)) // test recorders do not support deadlines
	if err := c.origin.Check(r); err != nil {
		c.refuse(w, r, http.StatusForbidden, "The request came from another site; nothing was done.")
		return
	}
	c.mux.ServeHTTP(w, r)
}

// Redirects reports whether to redirect a request for / to the console. It returns true for
// browsers if the console is usable.
func (c *Console) Redirects(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && (len(c.Config.Now().OperatorKeys) > 0 || c.isLocal(r))
}

// asset serves an embedded file. Such files contain no data, so they need no login.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	a, ok := c.assets[r.PathValue("file")]
	if !ok {
		c.missing(w, r)
		return
	}
	w.Header().Set("Content-Type", a.contentType)
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.URL.Query().Get("v") != a.version {
		w.Header().Set("Cache-Control", "no-cache")
	}
	_, _ = w.Write(a.body) // the client may have left
}

func (c *Console) missing(w http.ResponseWriter, r *http.Request) {
	c.refuse(w, r, http.StatusNotFound, "Page not found.")
}
