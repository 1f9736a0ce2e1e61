package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Headers of CORS. genbus never sends Access-Control-Allow-Credentials, so browsers send no cookies
// and no client certificates, and a page needs a key of its own.
const (
	// corsMethods lists the methods of all paths, as a test checks.
	corsMethods = "GET, HEAD, POST, DELETE"
	// corsMaxAge is the time in seconds for which browsers keep a preflight's answer.
	corsMaxAge = "600"
)

// corsExposed lists the response headers that pages may read besides those that browsers always
// show.
var corsExposed = strings.Join([]string{
	headerJobID, headerNotice, errcode.HeaderCode, "X-Request-Id", subject.HeaderRetryAfter, errcode.HeaderShouldRetry, headerPollAfter,
	"Location", "Preference-Applied", "Allow", "Accept-Encoding", "Www-Authenticate",
	"Accept-Ranges", "Content-Range", "Content-Disposition", "Etag",
}, ", ")

// crossOrigin returns the protection against web pages of origins other than origins.
func crossOrigin(origins []string) (*http.CrossOriginProtection, error) {
	p := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if origin == config.AnyOrigin {
			continue // needs api_keys, with which checkOrigin allows every origin
		}
		if err := p.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("http.cors.origins: %w", err)
		}
	}
	return p, nil
}

// checkOrigin refuses a request with which a web page of another origin could change something.
// CORS does not prevent that: browsers send a simple POST and only keep the answer from the page.
// With api_keys, a page needs a key, which browsers never add by themselves.
func (x *exchange) checkOrigin() error {
	safe := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	if safe || len(x.h.cfg.Now().APIKeys) > 0 || x.h.crossOrigin.Check(x.r) == nil && x.isOurHost() {
		return nil
	}
	return errcode.New(errcode.OriginNotAllowed, "a web page of another origin sent this request; add the origin to http.cors.origins, or configure api_keys")
}

// isOurHost reports whether a page's origin, if there is one, is certainly this machine or allowed.
// The name of another site may resolve to loopback, so that the site's pages seem to have our origin.
func (x *exchange) isOurHost() bool {
	origin := x.r.Header.Get("Origin")
	_, host, _ := strings.Cut(origin, "://")
	switch {
	case origin == "", config.IsLoopback(host), slices.Contains(x.h.origins, origin):
		return true
	}
	ours, err := url.Parse(x.h.cfg.Now().HTTP.PublicURL)
	return err == nil && host != "" && host == ours.Host // "null", the origin of a sandboxed page, has no host
}

// isShared reports whether pages may call the path. The console, whose key is in a cookie, and the
// probes and metrics, which need no key, are not shared.
func isShared(r *http.Request) bool {
	return notProbe(r) && !strings.HasPrefix(r.URL.Path, "/console")
}

// isPreflight reports whether a browser asks whether a page may send a request.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// share lets pages of the origins in http.cors.origins call the API and read its answers. It
// reports whether the request was a preflight, which it has then answered. Requests of other origins
// get the answers that they get without CORS, which browsers keep from the page.
func (h *Handler) share(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(h.origins) == 0 || !isShared(r) {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "":
		return false
	case slices.Contains(h.origins, config.AnyOrigin):
		header["Access-Control-Allow-Origin"] = []string{config.AnyOrigin}
	case slices.Contains(h.origins, origin):
		header["Access-Control-Allow-Origin"] = []string{origin}
	default:
		return false
	}
	if !isPreflight(r) {
		header["Access-Control-Expose-Headers"] = []string{corsExposed}
		return false
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	header["Access-Control-Allow-Methods"] = []string{corsMethods}
	if asked := r.Header["Access-Control-Request-Headers"]; len(asked) > 0 { // SDKs send many of their own
		header["Access-Control-Allow-Headers"] = asked
	}
	header["Access-Control-Max-Age"] = []string{corsMaxAge}
	r.Pattern = "preflight" // for the metrics
	w.WriteHeader(http.StatusNoContent)
	return true
}
