package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
)

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestContentEncodings checks that gzip is decoded on every path that reads a body, and that other
// encodings are refused by name.
func TestContentEncodings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	paths := map[string]string{
		"/v1/chat/completions": apitest.ChatBody, "/v1/video/generations": `{"model":"sandbox-video","prompt":"p"}`, "/v1/videos": apitest.VideosBody,
		"/genbus/v1/videos": `{"video":{"model":"sandbox-video","prompt":"p"}}`, operatorPrefix + "jobs/cancel": `{"dry_run":true}`,
		apitest.KlingText: apitest.KlingBody, apitest.JimengSubmit: apitest.JimengBody,
	}
	for _, row := range []struct {
		encoding string
		encode   func(testing.TB, string) string
		status   int
		says     string
	}{
		{"", nil, 200, ""},
		{"identity", nil, 200, ""},
		{"UTF-8", nil, 200, ""},
		{"gzip", gzipped, 200, ""},
		{"GZIP", gzipped, 200, ""},
		{"x-gzip", gzipped, 200, ""},
		{"identity, gzip", gzipped, 200, ""},
		{"gzip", func(t testing.TB, s string) string { return gzipped(t, s[:5]) + gzipped(t, s[5:]) }, 200, ""},
		{"gzip", nil, 400, "not valid gzip data"},
		{"gzip", func(t testing.TB, s string) string { return gzipped(t, s) + "more than a header" }, 400, "not valid gzip data"},
		{"gzip", func(t testing.TB, s string) string { g := gzipped(t, s); return g[:len(g)-8] + "12345678" }, 400, "not valid gzip data"},
		{"gzip", func(t testing.TB, s string) string { g := gzipped(t, s); return g[:12] + "\xff\xff" + g[14:] }, 400, "not valid gzip data"},
		{"gzip", func(t testing.TB, s string) string { g := gzipped(t, s); return g[:len(g)-9] }, 400, "is incomplete"},
		{"br", nil, 415, `content encoding \"br\"`},
		{"deflate", nil, 415, `content encoding \"deflate\"`},
		{"zstd", nil, 415, `content encoding \"zstd\"`},
		{"gzip, br", gzipped, 415, `content encoding \"gzip, br\"`},
		{"compress", nil, 415, `content encoding \"compress\"`},
	} {
		for path, body := range paths {
			if row.encode != nil {
				body = row.encode(t, body)
			}
			headers := []string{"Content-Encoding", row.encoding}
			if strings.HasPrefix(path, operatorPrefix) {
				headers = append(headers, apitest.ByOperator...)
			}
			a := w.Post(path, body, headers...)
			if a.Status != row.status || !strings.Contains(a.Body, row.says) {
				t.Errorf("%s, %q: %d %s, want %d", path, row.encoding, a.Status, a.Body, row.status)
			}
			if (a.Header.Get("Accept-Encoding") == "gzip") != (row.status == http.StatusUnsupportedMediaType) {
				t.Errorf("%s, %q: Accept-Encoding %q", path, row.encoding, a.Header.Get("Accept-Encoding"))
			}
		}
	}
	if a := w.Post("/v1/videos", gzipped(t, formBody(t, plainFields...)), "Content-Type", formType, "Content-Encoding", "gzip"); a.Status != http.StatusOK {
		t.Errorf("a form: %d %s", a.Status, a.Body)
	}
	id := w.CreateVideo()
	if a := w.Post("/genbus/v1/videos/"+id+"/cancel", "", "Content-Encoding", "gzip"); a.Status != http.StatusOK {
		t.Errorf("no body: %d %s", a.Status, a.Body)
	}
}

// TestGzippedFormsAreReadToTheirEnd checks a form, which is complete before its gzip data is.
func TestGzippedFormsAreReadToTheirEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.MaxBodyBytes = 64 << 10 })
	form := formBody(t, plainFields...)
	whole := gzipped(t, form)
	for name, row := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"whole":                {whole, 200, ""},
		"text after the form":  {gzipped(t, form+"an epilogue"), 200, ""},
		"another checksum":     {whole[:len(whole)-8] + "12345678", 400, "not valid gzip data"},
		"no checksum":          {whole[:len(whole)-8], 400, "is incomplete"},
		"half a checksum":      {whole[:len(whole)-4], 400, "is incomplete"},
		"more than gzip data":  {whole + "more than a header", 400, "not valid gzip data"},
		"a bomb after the end": {gzipped(t, form+strings.Repeat(" ", 10<<20)), 413, "the body is larger than 65536 bytes"},
	} {
		a := w.Post("/v1/videos", row.body, "Content-Encoding", "gzip", "Content-Type", formType)
		if a.Status != row.status || !strings.Contains(a.Body, row.says) {
			t.Errorf("%s: %d %s, want %d", name, a.Status, a.Body, row.status)
		}
	}
}

// TestGzipBombs checks that the limit of a body holds for its content, however short it is on the
// wire.
func TestGzipBombs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.HTTP.MaxBodyBytes = 64 << 10 })
	long := strings.Repeat(" ", 10<<20)
	prompt := strings.Replace(apitest.VideosBody, "{", "{"+strings.Repeat(" ", 60<<10), 1)
	for name, row := range map[string]struct {
		body   string
		kind   string
		status int
	}{
		"a bomb":           {gzipped(t, "{"+long+"}"), "application/json", 413},
		"bombs in a row":   {strings.Repeat(gzipped(t, strings.Repeat(" ", 32<<10)), 3), "application/json", 413},
		"a bomb in a bomb": {gzipped(t, gzipped(t, "{"+long+"}")), "application/json", 400},
		"a form":           {gzipped(t, formBody(t, []string{"model", "m"}, []string{"prompt", long})), formType, 413},
		"below the limit":  {gzipped(t, prompt), "application/json", 200},
	} {
		if a := w.Post("/v1/videos", row.body, "Content-Encoding", "gzip", "Content-Type", row.kind); a.Status != row.status {
			t.Errorf("%s of %d bytes: %d %s, want %d", name, len(row.body), a.Status, a.Body, row.status)
		}
	}
}

// TestSignaturesCoverTheBodyAsSent checks a signed request whose body is compressed.
func TestSignaturesCoverTheBodyAsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, andAPair)
	body := gzipped(t, apitest.JimengBody)
	for name, row := range map[string]struct {
		signer upstream.Authorizer
		status int
	}{
		"signed": {jimeng.NewSigner(pairKey, pairSecret), 200},
		"forged": {jimeng.NewSigner(pairKey, "another-secret-of-it"), 401},
	} {
		headers := append(w.signedBy(row.signer, http.MethodPost, apitest.JimengSubmit, body), "Content-Encoding", "gzip")
		if a := w.Post(apitest.JimengSubmit, body, headers...); a.Status != row.status {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
}

// TestSignaturesAreCheckedBeforeTheContentType checks that only callers who are known learn that
// their content type is wrong.
func TestSignaturesAreCheckedBeforeTheContentType(t *testing.T) {
	t.Parallel()
	w := newWorld(t, andAPair)
	for secret, status := range map[string]int{pairSecret: http.StatusUnsupportedMediaType, "another-secret-of-it": http.StatusUnauthorized} {
		r := w.Request(http.MethodPost, apitest.JimengSubmit, apitest.JimengBody)
		r.Header.Set("Content-Type", formType)
		if err := jimeng.NewSigner(pairKey, secret).Authorize(r, []byte(apitest.JimengBody)); err != nil {
			t.Fatal(err)
		}
		res, err := w.Client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("signed with %s: %s, want %d", secret, res.Status, status)
		}
	}
}
