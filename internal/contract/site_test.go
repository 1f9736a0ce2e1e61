package contract_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/subject"
)

func get(t *testing.T, h http.Handler, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestSite(t *testing.T) {
	t.Parallel()
	site := contract.NewSite(contract.Options{Names: subject.Default()})
	for name, row := range map[string]struct {
		handler          http.Handler
		media, beginning string
	}{
		"openapi":  {site.OpenAPI(), "application/json", "{\n \"components\""},
		"asyncapi": {site.AsyncAPI(), "application/json", "{\n \"asyncapi\": \"3.0.0\""},
		"page":     {site.Page(), "text/html; charset=utf-8", "<!doctype html>"},
		"icon":     {site.Icon(), "image/svg+xml", "<svg"},
	} {
		first := get(t, row.handler)
		if first.Code != http.StatusOK || first.Header().Get("Content-Type") != row.media || !strings.HasPrefix(first.Body.String(), row.beginning) {
			t.Errorf("%s: %d %v %.40q", name, first.Code, first.Header(), first.Body)
		}
		if again := get(t, row.handler, "If-None-Match", first.Header().Get("Etag")); again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s, unchanged: %d, %d bytes", name, again.Code, again.Body.Len())
		}
	}
}

// TestPageLoadsNothingFromOutside checks that the policy forbids external content and that the page
// has none.
func TestPageLoadsNothingFromOutside(t *testing.T) {
	t.Parallel()
	w := get(t, contract.NewSite(contract.Options{}).Page())
	policy := w.Header().Get("Content-Security-Policy")
	if !regexp.MustCompile(`^default-src 'none'; style-src 'sha256-[^']{44}'; script-src 'sha256-[^']{44}'; connect-src 'self';`).MatchString(policy) {
		t.Errorf("policy %s", policy)
	}
	if other := regexp.MustCompile(`https?://\S+|//[a-z]+\.[a-z]+|@import|\burl\(|<link rel="[^i]|<img|src=|innerHTML|\beval\(`).FindString(w.Body.String()); other != "" {
		t.Errorf("the page has %s", other)
	}
	if strings.Contains(w.Body.String(), "{{") {
		t.Error("a part of the page is missing")
	}
}

// TestPolicyAllowsThePage checks the hashes of the inline style and script: a browser ignores a
// block that the policy does not name, and the page would stay blank.
func TestPolicyAllowsThePage(t *testing.T) {
	t.Parallel()
	w := get(t, contract.NewSite(contract.Options{}).Page())
	policy := w.Header().Get("Content-Security-Policy")
	for _, tag := range []string{"style", "script"} {
		blocks := regexp.MustCompile(`(?s)<`+tag+`\b[^>]*>(.*?)</`+tag+`>`).FindAllSubmatch(w.Body.Bytes(), -1)
		if len(blocks) != 1 || len(blocks[0][1]) == 0 {
			t.Fatalf("the page has %d of <%s>, want one that is not empty", len(blocks), tag)
		}
		sum := sha256.Sum256(blocks[0][1])
		if want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("a browser wants %s, and the policy is %s", want, policy)
		}
	}
}
