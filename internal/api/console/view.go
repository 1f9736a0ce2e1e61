package console

import (
	"context"
	"net/http"

	"github.com/genbus/genbus/internal/errcode"
)

// view is a page that shows data.
type view struct {
	template, title, nav string
	load                 func(ctx context.Context, c *Console, r *query) (any, error)
	// live keeps the page up to date. It must be false if a script writes text into the page,
	// because an update would replace that text.
	live bool
}

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

func (c *Console) load(ctx context.Context, q *query, who viewer, v view) (page, int) {
	p := page{Title: v.title, Nav: v.nav, Viewer: who, URL: q.URL, Live: v.live, Done: done[q.get("done")], Names: namesIn(c.Config.Now())}
	ctx, cancel := context.WithTimeout(withKey(ctx, who), loadTimeout)
	defer cancel()
	var err error
	if p.Data, err = v.load(ctx, c, q); err != nil {
		p.Err, p.Data = explain(err), nil
		return p, errcode.MeaningOf(errcodeOf(err)).HTTP
	}
	if d, ok := p.Data.(interface{ heading() string }); ok {
		p.Title = d.heading()
	}
	return p, http.StatusOK
}
