package console

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
	"github.com/genbus/genbus/internal/telemetry"
)

// page is the data of a template.
type page struct {
	Title string
	// Nav is the page's entry in the menu. Empty hides the menu.
	Nav    string
	Viewer viewer
	// URL is the page's address with its query.
	URL  *url.URL
	Data any
	// Err explains missing Data or a failed action. Done describes a completed action.
	Err, Done string
	// Live reports whether the page is kept up to date.
	Live bool
	// Names are offered as values of filters.
	Names   names
	Version string
}

// Query returns a parameter of the page's address.
func (p page) Query(name string) string { return p.URL.Query().Get(name) }

// With returns the page's address with one parameter changed. It begins at the first page of a
// list, unless the parameter is a page token.
func (p page) With(name, value string) string {
	q := p.URL.Query()
	q.Del("page_token")
	if q.Set(name, value); value == "" {
		q.Del(name)
	}
	q.Del("done")
	return p.URL.Path + "?" + q.Encode()
}

// To returns the address of another page, with this page's filters and one more parameter.
func (p page) To(path, name, value string) string {
	q := p.URL.Query()
	q.Del("done")
	q.Del("page_token")
	q.Del("order")
	q.Set(name, value)
	return Path + path + "?" + q.Encode()
}

// query is a request for a page, with its parameters.
type query struct {
	*http.Request
	values url.Values
}

func (q *query) get(name string) string { return q.values.Get(name) }

// only refuses parameters other than names and done. Ignoring a mistyped filter would select too
// much.
func (q *query) only(names ...string) error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if name != "done" && !slices.Contains(names, name) {
			return errcode.Invalid([]errcode.Violation{{Field: errcode.Clip(name, 64), Description: "is unknown; use one of " + strings.Join(names, ", ")}})
		}
	}
	return nil
}

// loadTimeout bounds the API calls for one page.
const loadTimeout = 10 * time.Second

// withKey returns a context for calls that send the viewer's key.
func withKey(ctx context.Context, who viewer) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", who.authorization)
}

func explain(err error) string { return grpcstatus.Error(err).Message }

// write answers with a complete page.
func (c *Console) write(w http.ResponseWriter, r *http.Request, code int, name string, p page) {
	p.Version = c.Version
	if p.URL == nil {
		p.URL = r.URL
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	body := c.render(name, "layout", p)
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may have left
}

// render executes a part of a page's template. A failing template is a bug and is logged.
func (c *Console) render(name, part string, p page) []byte {
	var b bytes.Buffer
	if err := c.templates[name].ExecuteTemplate(&b, part, p); err != nil {
		c.Logger.Error("could not render console page", "page", name, telemetry.KeyError, err)
		return []byte(`<main id="main"><p class="error">This page cannot be shown; see the service log.</p></main>`)
	}
	return b.Bytes()
}

// refuse answers with a page that shows only an error.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	c.write(w, r, code, "message", page{Title: "genbus", Err: text})
}

func errcodeOf(err error) errcode.Code { return grpcstatus.Error(err).Code }

// wantsEvents reports whether a request is for a page's event stream.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// message is the data of a page that explains an error.
type message struct{ Code, JobID, Back string }

// done maps the word in a page's address to the message shown after an action. Because only the
// word comes from the address, a link cannot make a page show arbitrary text.
var done = map[string]string{
	"cancelled": "The job was cancelled, unless it had already ended.",
	"erased":    "The job was erased.",
	"retried":   "The request was submitted again as this job.",
	"redriven":  "The request was submitted again as this job.",
	"found":     "The upstream has the task. Attach it without an ID; genbus looks it up again.",
	"unseen":    "The upstream does not find the task now. It may still exist.",
	"unknown":   "The upstream did not say whether it has the task: it did not answer, or its answer is about another task.",
	"attached":  "This job now follows the upstream's task.",
	"dropped":   "The dead letter was removed.",
	"paused":    "The route is paused: waiting jobs wait, held jobs continue.",
	"resumed":   "The route is running again.",
}
