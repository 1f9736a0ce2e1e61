package console

import (
	"bytes"
	"context"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
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

// view is a page that reads something.
type view struct {
	template, title, nav string
	// load reads what the page shows.
	load func(ctx context.Context, c *Console, r *query) (any, error)
	// live is whether the page is kept up to date. What a script has written on one that is not stays.
	live bool
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

// view serves a page, or the stream that keeps it up to date.
func (c *Console) view(w http.ResponseWriter, r *http.Request, v view) {
	who, err := c.viewer(r)
	if needsLogin(err) {
		c.askForLogin(w, r)
		return
	}
	if v.live && wantsEvents(r) {
		key := r.URL.RequestURI()
		if who.Acts {
			key = "acts " + key
		}
		request := r.Clone(context.WithoutCancel(r.Context())) // the feed may outlive this viewer
		c.stream(w, r, key, who, func(ctx context.Context, reader viewer) ([]byte, bool) {
			p, code := c.load(ctx, &query{Request: request, values: request.URL.Query()}, reader, v)
			if code >= http.StatusInternalServerError {
				return nil, false
			}
			return c.render(v.template, "main", p), true
		})
		return
	}
	p, code := c.load(r.Context(), &query{Request: r, values: r.URL.Query()}, who, v)
	c.write(w, r, code, v.template, p)
}

// load reads what a page shows.
func (c *Console) load(ctx context.Context, q *query, who viewer, v view) (page, int) {
	p := page{Title: v.title, Nav: v.nav, Viewer: who, URL: q.URL, Live: v.live, Done: done[q.get("done")]}
	ctx, cancel := context.WithTimeout(withKey(ctx, who), loadTimeout)
	defer cancel()
	var err error
	if p.Data, err = v.load(ctx, c, q); err != nil {
		p.Err, p.Data = explain(err), nil
		return p, errcode.MeaningOf(errcodeOf(err)).HTTP
	}
	return p, http.StatusOK
}

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
		c.Logger.Error("a page of the console cannot be rendered", "page", name, telemetry.KeyError, err)
		return []byte(`<main id="main"><p class="error">This page cannot be shown; the log of the service says why.</p></main>`)
	}
	return b.Bytes()
}

// refuse answers with a page that says why there is nothing else.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	c.write(w, r, code, "message", page{Title: "genbus", Err: text})
}

func (c *Console) missing(w http.ResponseWriter, r *http.Request) {
	c.refuse(w, r, http.StatusNotFound, "There is no such page.")
}

// parse reads the templates of all pages, by the pages' names. Each page's is one with the
// layout and the parts that pages share.
func parse(a assets) (map[string]*template.Template, error) {
	shared, err := template.New("").Funcs(functions).Funcs(template.FuncMap{"asset": a.url}).ParseFS(files, "templates/layout.html", "templates/parts.html")
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	out := map[string]*template.Template{}
	for _, p := range pages {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(files, p)
		}
		if err != nil {
			return nil, err
		}
		out[strings.TrimSuffix(path.Base(p), ".html")] = t
	}
	return out, nil
}
