package console

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// page is what a template is given.
type page struct {
	Title string
	// Nav is the entry of the menu to which the page belongs; empty without a menu.
	Nav    string
	Viewer viewer
	// URL is the page's own address, with its query.
	URL  *url.URL
	Data any
	// Err is why there is no Data, or why an action was not done; and Done what was done.
	Err, Done string
	// Live is whether the page is kept up to date.
	Live    bool
	Version string
}

// Query is a parameter of the page's address.
func (p page) Query(name string) string { return p.URL.Query().Get(name) }

// With is the page's address with another value of a parameter.
func (p page) With(name, value string) string {
	q := p.URL.Query()
	q.Set(name, value)
	q.Del("done")
	return p.URL.Path + "?" + q.Encode()
}

// To is another page with the filters of this one, and one parameter more.
func (p page) To(path, name, value string) string {
	q := p.URL.Query()
	q.Del("done")
	q.Del("page_token")
	q.Del("order")
	q.Set(name, value)
	return Path + path + "?" + q.Encode()
}

// query is what a page is asked for.
type query struct {
	*http.Request
	values url.Values
}

func (q *query) get(name string) string { return q.values.Get(name) }

// number is a parameter that is a number; 0 where it is none.
func (q *query) number(name string) uint64 {
	n, _ := strconv.ParseUint(q.get(name), 10, 64)
	return n
}

// loadTimeout bounds the reads of one page.
const loadTimeout = 10 * time.Second

// withKey has calls made with the key of who looks.
func withKey(ctx context.Context, who viewer) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", who.authorization)
}

// explain is the text of a call's error.
func explain(err error) string { return status.Convert(err).Message() }

// write answers with a whole page.
func (c *Console) write(w http.ResponseWriter, r *http.Request, code int, name string, p page) {
	p.Version = c.Version
	if p.URL == nil {
		p.URL = r.URL
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	body := c.render(name, "layout", p)
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that went away is no error of ours
}

// render executes a part of a page's template. A template that cannot is a mistake of ours,
// which the log has.
func (c *Console) render(name, part string, p page) []byte {
	var b bytes.Buffer
	if err := c.templates[name].ExecuteTemplate(&b, part, p); err != nil {
		c.Logger.Error("could not render console page", "page", name, telemetry.KeyError, err)
		return []byte(`<main id="main"><p class="error">This page cannot be shown; see the service log.</p></main>`)
	}
	return b.Bytes()
}

// refuse answers with a page that says why there is nothing else.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	c.write(w, r, code, "message", page{Title: "genbus", Err: text})
}

// errcodeOf is the code of a call's error.
func errcodeOf(err error) errcode.Code { return errcode.FromStatus(err).Code }

// wantsEvents reports whether a request is for a page's stream and not for the page.
func wantsEvents(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// message is what a page shows that says why something was not done.
type message struct{ Code, JobID, Back string }

// done are what a page says after an action, by the word in its address: a link can have it
// say nothing else.
var done = map[string]string{
	"cancelled": "The job was cancelled, unless it had already ended.",
	"erased":    "The job was erased.",
	"retried":   "The request was submitted again as this job.",
	"redriven":  "The request was sent again as this job.",
	"found":     "The upstream has the task. Attach it without an ID; genbus looks it up again.",
	"unseen":    "The upstream does not find the task now. It may still exist.",
	"unknown":   "The upstream did not say whether it has the task: it did not answer, or its answer is about another task.",
	"attached":  "This job now follows the upstream's task.",
	"dropped":   "The dead letter was removed.",
	"paused":    "The route is paused: waiting jobs wait, held jobs continue.",
	"resumed":   "The route is running again.",
}
