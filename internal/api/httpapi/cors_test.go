package httpapi_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/errcode"
)

const (
	ourPage   = "https://app.example.com"
	otherPage = "https://app.example.com.evil.example"
)

func withOrigins(origins ...string) func(*config.Config) {
	return func(c *config.Config) { c.HTTP.CORS.Origins = origins }
}

// preflight sends what a browser sends before a call. The contract does not describe it.
func (w *world) preflight(origin, method, path string) *http.Response {
	w.T.Helper()
	r := w.Request(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", method,
		"Access-Control-Request-Headers", "authorization,content-type,idempotency-key,x-stainless-lang")
	r.Header.Del("Authorization")
	res, err := w.Client.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res
}

func corsOf(h http.Header) (headers []string) {
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			headers = append(headers, name+": "+h.Get(name))
		}
	}
	slices.Sort(headers)
	return headers
}

// TestCORSIsOffByDefault checks that answers to browsers are as without this feature.
func TestCORSIsOffByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if res := w.preflight(ourPage, "POST", "/v1/videos"); res.StatusCode != http.StatusForbidden || res.Header.Get(errcode.HeaderCode) != string(errcode.OriginNotAllowed) || corsOf(res.Header) != nil || res.Header.Get("Vary") != "" {
		t.Errorf("preflight: %d %v", res.StatusCode, res.Header)
	}
	if a := w.Get("/v1/models", "Origin", ourPage); a.Status != http.StatusOK || corsOf(a.Header) != nil || a.Header.Get("Vary") != "" {
		t.Errorf("call: %d %v", a.Status, a.Header)
	}
}

// TestPreflights checks which pages may call which paths, without a key.
func TestPreflights(t *testing.T) {
	t.Parallel()
	named, every := newWorld(t, apitest.TwoTenants, withOrigins("http://localhost:5173", ourPage)), newWorld(t, apitest.TwoTenants, withOrigins("*"))
	for _, row := range []struct {
		w      *world
		origin string
		allow  string // empty: refused
	}{
		{named, ourPage, ourPage},
		{named, "http://localhost:5173", "http://localhost:5173"},
		{named, otherPage, ""},
		{named, "http://app.example.com", ""},
		{named, "https://app.example.com:8443", ""},
		{named, "HTTPS://APP.EXAMPLE.COM", ""},
		{named, "null", ""},
		{named, "*", ""},
		{every, otherPage, "*"},
		{every, "null", "*"},
	} {
		for _, path := range []string{"/v1/chat/completions", "/v1/videos/video_x", "/v1/videos/video_x/content", "/genbus/v1/videos", operatorPrefix + "jobs", apitest.KlingText, apitest.JimengSubmit, "/v1/nothing"} {
			res := row.w.preflight(row.origin, "DELETE", path)
			if row.allow == "" {
				want := http.StatusForbidden
				if path == "/v1/nothing" {
					want = http.StatusNotFound
				}
				if res.StatusCode != want || corsOf(res.Header) != nil || res.Header.Get("Vary") != "Origin" {
					t.Errorf("%s from %s: %d %v", path, row.origin, res.StatusCode, res.Header)
				}
				continue
			}
			want := []string{
				"Access-Control-Allow-Headers: authorization,content-type,idempotency-key,x-stainless-lang",
				"Access-Control-Allow-Methods: GET, HEAD, POST, DELETE", "Access-Control-Allow-Origin: " + row.allow, "Access-Control-Max-Age: 600",
			}
			if got := corsOf(res.Header); res.StatusCode != http.StatusNoContent || !slices.Equal(got, want) || !slices.Equal(res.Header["Vary"], []string{"Origin", "Access-Control-Request-Headers"}) {
				t.Errorf("%s from %s: %d %q, Vary %q", path, row.origin, res.StatusCode, got, res.Header["Vary"])
			}
		}
		for _, path := range []string{"/metrics", "/healthz", "/readyz", "/readyz/jobs", "/console", "/console/jobs"} {
			if res := row.w.preflight(row.origin, "GET", path); res.StatusCode != http.StatusMethodNotAllowed || corsOf(res.Header) != nil {
				t.Errorf("%s from %s: %d %v", path, row.origin, res.StatusCode, res.Header)
			}
		}
	}
	if res := named.preflight(ourPage, "GET", "/v1/models"); !strings.HasPrefix(res.Proto, "HTTP/1") || res.Header.Get("X-Request-Id") == "" {
		t.Errorf("%s %v", res.Proto, res.Header)
	}
	if n := named.counter("genbus_http_requests_total", map[string]string{"route": "preflight", "code": "204"}); n == 0 {
		t.Error("no preflight is counted")
	}
}

// TestPagesReadAnswers checks that a page can read every answer to its calls, and no other page can.
func TestPagesReadAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, withOrigins(ourPage))
	for name, answer := range map[string]apitest.Answer{
		"an answer":          w.Get("/v1/models", "Origin", ourPage, "Authorization", "Bearer key-acme"),
		"a stream":           w.Post("/v1/chat/completions", apitest.StreamBody, "Origin", ourPage, "Authorization", "Bearer key-acme"),
		"a refusal":          w.Post("/v1/chat/completions", `{`, "Origin", ourPage, "Authorization", "Bearer key-acme"),
		"a call of nobody":   w.Get("/v1/models", "Origin", ourPage),
		"an unknown path":    w.Get("/v1/nothing", "Origin", ourPage),
		"an unknown method":  w.Do(http.MethodDelete, "/v1/models", "", "Origin", ourPage),
		"an empty ID":        w.Get("/v1/videos//content", "Origin", ourPage),
		"a vendor's refusal": w.Post(apitest.KlingText, `{`, "Origin", ourPage, "Authorization", "Bearer key-acme"),
		"the contract":       w.Get("/openapi.json", "Origin", ourPage),
	} {
		exposed := strings.Split(answer.Header.Get("Access-Control-Expose-Headers"), ", ")
		if answer.Header.Get("Access-Control-Allow-Origin") != ourPage || answer.Header.Get("Vary") != "Origin" || len(corsOf(answer.Header)) != 2 || !slices.Contains(exposed, "Genbus-Job-Id") {
			t.Errorf("%s: %d %v", name, answer.Status, answer.Header)
		}
	}
	if a := w.Get("/v1/models", "Origin", otherPage, "Authorization", "Bearer key-acme"); a.Status != http.StatusOK || corsOf(a.Header) != nil || a.Header.Get("Vary") != "Origin" {
		t.Errorf("another page: %d %v", a.Status, a.Header)
	}
	if a := w.Get("/metrics", "Origin", ourPage); corsOf(a.Header) != nil {
		t.Errorf("metrics: %v", a.Header)
	}
}

// TestPagesChangeNothingWithoutKeys checks that without API keys, which a page would have to know, a
// browser cannot change anything for a page of another origin.
func TestPagesChangeNothingWithoutKeys(t *testing.T) {
	t.Parallel()
	open, keyed := newWorld(t, withOrigins(ourPage)), newWorld(t, apitest.TwoTenants)
	id := open.CreateVideo()
	calls := map[string]string{
		"POST /v1/chat/completions": apitest.ChatBody, "POST /v1/video/generations": apitest.VideoBody, "POST /v1/videos": apitest.VideosBody,
		"POST " + apitest.KlingText: apitest.KlingBody, "POST " + apitest.JimengSubmit: apitest.JimengBody,
		"POST /genbus/v1/videos": `{"video":{"model":"sandbox-video","prompt":"p"}}`, "POST /genbus/v1/videos/" + id + "/cancel": "",
		"DELETE /v1/videos/" + id: "", "DELETE /genbus/v1/videos/" + id: "",
	}
	for name, headers := range map[string][]string{
		"a page":                           {"Origin", otherPage, "Sec-Fetch-Site", "cross-site"},
		"a page in an old one":             {"Origin", otherPage},
		"a page without origin":            {"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		"a page on this host":              {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
		"a page that hides its origin":     {"Origin", "null", "Sec-Fetch-Site", "same-origin"},
		"a page whose name resolves to us": {"Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin"},
		"a page without type":              {"Origin", otherPage, "Sec-Fetch-Site", "cross-site", "Content-Type", ""},
	} {
		for call, body := range calls {
			method, path, _ := strings.Cut(call, " ")
			a := open.Do(method, path, body, headers...)
			if a.Status != http.StatusForbidden || a.Header.Get("Genbus-Error-Code") != "origin_not_allowed" || !strings.Contains(a.Body, "http.cors.origins") {
				t.Errorf("%s, %s: %d %s", name, call, a.Status, a.Body)
			}
		}
		if a := open.Get("/v1/models", headers...); a.Status != http.StatusOK {
			t.Errorf("%s reads: %d %s", name, a.Status, a.Body)
		}
		if a := keyed.Post("/v1/videos", apitest.VideosBody, append(headers, "Authorization", "Bearer key-acme")...); a.Status != http.StatusOK {
			t.Errorf("%s with a key: %d %s", name, a.Status, a.Body)
		}
	}
	for name, headers := range map[string][]string{
		"no browser":        nil,
		"the user":          {"Sec-Fetch-Site", "none"},
		"our own page":      {"Origin", open.HTTP.URL, "Sec-Fetch-Site", "same-origin"},
		"an allowed page":   {"Origin", ourPage, "Sec-Fetch-Site", "cross-site"},
		"an allowed, old":   {"Origin", ourPage},
		"our own page, old": {"Origin", open.HTTP.URL},
	} {
		if a := open.Post("/v1/videos", apitest.VideosBody, headers...); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// unlisted lists the response headers that browsers always show, and those that only browsers use.
var unlisted = []string{
	"Cache-Control", "Content-Language", "Content-Length", "Content-Type", "Expires", "Last-Modified", "Pragma",
	"Content-Security-Policy", "X-Content-Type-Options",
}

// TestCORSCoversTheContract checks that pages may use every method and read every header in the
// contract.
func TestCORSCoversTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withOrigins(ourPage))
	methods := strings.Split(w.preflight(ourPage, "GET", "/v1/models").Header.Get("Access-Control-Allow-Methods"), ", ")
	for _, pattern := range w.Handler.Patterns() {
		if method, _, _ := strings.Cut(pattern, " "); !slices.Contains(methods, method) {
			t.Errorf("%s may not be called", pattern)
		}
	}
	document := w.Get("/openapi.json", "Origin", ourPage)
	d := apitest.Must[*contracttest.Document](t)(contracttest.Load([]byte(document.Body)))
	exposed := append(strings.Split(document.Header.Get("Access-Control-Expose-Headers"), ", "), unlisted...)
	var n int
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				visit(e)
			}
		case map[string]any:
			for name, e := range v {
				headers, is := e.(map[string]any)
				if name == "headers" && is {
					for header := range headers {
						if n++; !slices.Contains(exposed, header) {
							t.Errorf("pages cannot read %s", header)
						}
					}
				}
				visit(e)
			}
		}
	}
	visit(d.Find("paths"))
	visit(d.Find("components", "responses"))
	if n < 20 {
		t.Errorf("%d headers in the document", n)
	}
}
