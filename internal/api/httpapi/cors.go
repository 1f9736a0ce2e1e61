package httpapi

import (
	"net/http"
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

// share lets pages of the origins in http.cors.origins call the API and read its answers. It
// reports whether the request was a preflight, which it has then answered. Requests of other origins
// get the answers that they get without CORS, which browsers keep from the page.
//
// The console, whose key is in a cookie, and the probes and metrics, which need no key, are not
// shared.
func (h *Handler) share(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(h.origins) == 0 || !notProbe(r) || strings.HasPrefix(r.URL.Path, "/console") {
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
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
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
