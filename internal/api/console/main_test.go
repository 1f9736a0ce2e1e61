package console_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...) }

const viewerKey = "gb_viewer-key-0123456789"

// withOperators configures an operator and a read-only operator.
func withOperators(c *config.Config) {
	apitest.WithOperator(c)
	c.OperatorKeys = append(c.OperatorKeys, config.OperatorKey{Name: "viewer", KeyEnv: "VIEWER", Key: config.NewSecret(viewerKey), ReadOnly: true})
}

// browser keeps cookies, does not follow redirects, and sends the headers about its origin.
type browser struct {
	w      *apitest.World
	cookie string
}

func newBrowser(w *apitest.World) *browser { return &browser{w: w} }

type answer struct {
	status   int
	header   http.Header
	location string
	body     string
}

func (b *browser) request(method, path string, form url.Values, headers ...string) *http.Request {
	b.w.T.Helper()
	r, err := http.NewRequestWithContext(b.w.T.Context(), method, b.w.HTTP.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", b.w.HTTP.URL)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if b.cookie != "" {
		r.Header.Set("Cookie", b.cookie)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (b *browser) do(r *http.Request) answer {
	b.w.T.Helper()
	client := &http.Client{Transport: b.w.Client.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		b.w.T.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.T.Fatal(err)
	}
	for _, c := range res.Cookies() {
		if b.cookie = c.Name + "=" + c.Value; c.MaxAge < 0 {
			b.cookie = ""
		}
	}
	return answer{status: res.StatusCode, header: res.Header, location: res.Header.Get("Location"), body: string(body)}
}

var tag = regexp.MustCompile(`<[^>]*>`)

// plain returns the text of a page.
func plain(page string) string { return html.UnescapeString(tag.ReplaceAllString(page, "")) }

func (b *browser) get(path string, headers ...string) answer {
	b.w.T.Helper()
	return b.do(b.request(http.MethodGet, path, nil, headers...))
}

func (b *browser) post(path string, form url.Values, headers ...string) answer {
	b.w.T.Helper()
	return b.do(b.request(http.MethodPost, path, form, headers...))
}

func (b *browser) login(key string) *browser {
	b.w.T.Helper()
	if a := b.post("/console/login", url.Values{"key": {key}}); a.status != http.StatusSeeOther {
		b.w.T.Fatalf("login: %d %s", a.status, a.body)
	}
	return b
}
