package content

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

// maxRedirects limits the number of HTTP redirects and JSON responses that name a URL, counted
// together.
const maxRedirects = 5

const op = "content"

// walk follows redirects from a place to its content.
type walk struct {
	reader  *Reader
	place   Place
	want    want
	asked   want // what the current address is asked for: want, or the whole content
	visited []*url.URL
	// trusted is true while only the upstream itself has chosen the address. After that, even the
	// upstream's own origin is called without the key, because another host must not choose a
	// target for the key.
	trusted bool
}

func (w *walk) open(ctx context.Context) (*File, error) {
	address := w.place.URL
	if address == "" {
		if w.place.Path == "" || w.place.Endpoint == nil {
			return nil, errcode.New(errcode.ContentUnavailable, "the task has no content URL")
		}
		address = w.place.Endpoint.URL(w.place.Path)
	}
	for range maxRedirects + 1 {
		f, next, err := w.visit(ctx, address)
		if f != nil || err != nil {
			return f, err
		}
		address = next
	}
	return nil, w.failed(errcode.ContentUnavailable, w.last(), fmt.Sprintf("redirected more than %d times", maxRedirects), nil)
}

// visit returns the content or the next address. If an address answers a range request with part of
// a JSON text, visit fetches the whole text.
func (w *walk) visit(ctx context.Context, address string) (f *File, next string, err error) {
	if isDataURL(address) {
		f, err := openData(address, w.want)
		return f, "", err
	}
	u := parseAddress(address)
	if u == nil {
		return nil, "", errcode.New(errcode.ContentBlocked, "the content's address is neither an http nor an https URL")
	}
	w.visited = append(w.visited, u)
	w.trusted = w.trusted && w.owns(u)
	w.asked = w.want
	f, next, err = w.ask(ctx, u)
	if errors.Is(err, errPartOfJSON) {
		w.asked = want{}
		f, next, err = w.ask(ctx, u)
	}
	return f, next, err
}

// errPartOfJSON reports that the client's range was applied to JSON instead of content.
var errPartOfJSON = errors.New("got only part of a JSON response")

// ask calls one address. A response other than content must arrive within another HeaderTimeout.
func (w *walk) ask(ctx context.Context, u *url.URL) (f *File, next string, err error) {
	resp, late, err := w.call(ctx, u)
	if err != nil {
		return nil, "", err
	}
	defer late.Stop()
	switch {
	case isRedirect(resp.StatusCode):
		defer resp.Body.Close()
		next, err = w.redirect(resp)
		return nil, next, err
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && w.asked.part != nil:
		_ = resp.Body.Close()
		return w.beyond(ctx, resp)
	case resp.StatusCode/100 == 2:
		return w.accept(resp)
	default:
		defer resp.Body.Close()
		return nil, "", w.refusal(resp)
	}
}

// beyond handles a 416. The 416 may concern a small JSON response that names the content's URL,
// which only a request without a range can show.
func (w *walk) beyond(ctx context.Context, said *http.Response) (f *File, next string, err error) {
	f = notInFile(parseUnsatisfied(said.Header.Get("Content-Range")))
	if length, known := unsatisfiedLength(said.Header.Get("Content-Range")); known && length > maxText {
		return f, "", nil
	}
	w.asked = want{}
	resp, late, err := w.call(ctx, said.Request.URL)
	if err != nil {
		return nil, "", err
	}
	defer late.Stop()
	if resp.StatusCode/100 != 2 {
		_ = resp.Body.Close()
		return f, "", nil
	}
	whole, next, err := w.accept(resp)
	if whole != nil {
		_ = whole.Body.Close()
		return f, "", nil
	}
	return nil, next, err
}

// owns reports whether u is on the upstream's own origin.
func (w *walk) owns(u *url.URL) bool {
	if w.place.Endpoint == nil {
		return false
	}
	base, err := url.Parse(w.place.Endpoint.BaseURL)
	return err == nil && originOf(base) == originOf(u)
}

// call sends the request and returns the response, whatever its status, with a stream as its body.
// The caller must stop the returned timer, which otherwise ends the response after another
// HeaderTimeout.
func (w *walk) call(ctx context.Context, u *url.URL) (*http.Response, *time.Timer, error) {
	limit := w.reader.opts.HeaderTimeout
	callCtx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(limit, func() { cancel(fmt.Errorf("no answer within %s", limit)) })
	resp, err := w.send(callCtx, u)
	if err != nil {
		late.Stop()
		err = w.broken(ctx, callCtx, u, "no answer", err)
		cancel(errClosed)
		return nil, nil, err
	}
	late.Reset(limit)
	resp.Body = newStream(resp.Body, cancel, w.reader.opts.IdleTimeout, func(err error) error {
		return w.broken(ctx, callCtx, u, "the content was cut off", err)
	})
	return resp, late, nil
}

func (w *walk) send(ctx context.Context, u *url.URL) (*http.Response, error) {
	if w.trusted {
		return w.sendWithKey(ctx, u)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("the URL is invalid")
	}
	req.Header.Set("User-Agent", "genbus")
	authenticate(req)
	w.asked.setHeader(req.Header)
	return w.transport(u).RoundTrip(req)
}

func (w *walk) sendWithKey(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := w.place.Endpoint.NewRequest(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return nil, err
	}
	// The result's URL need not be below the base URL.
	req.URL, req.Host = u, u.Host
	authenticate(req)
	w.asked.setHeader(req.Header)
	return w.place.Endpoint.DoRaw(op, req)
}

// authenticate sends the user information of the URL, unless the request has the upstream's key.
func authenticate(req *http.Request) {
	if user := req.URL.User; user != nil && req.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
}

// transport returns the transport for a call without the key. The upstream's own origin is always
// allowed.
func (w *walk) transport(u *url.URL) http.RoundTripper {
	switch {
	case w.owns(u):
		return w.place.Endpoint.Transport
	case w.place.PrivateOK:
		return w.reader.anywhere
	default:
		return w.reader.public
	}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	default:
		return false
	}
}

// redirect returns the target of a redirect. Unlike a JSON response, a redirect must not lead to a
// data URL.
func (w *walk) redirect(resp *http.Response) (string, error) {
	location := resp.Header.Get("Location")
	next, err := resp.Request.URL.Parse(location)
	if location == "" || err != nil || originOf(next) == (origin{}) {
		return "", w.failed(errcode.ContentBlocked, resp.Request.URL, "redirects to an address that is neither an http nor an https URL", nil)
	}
	return next.String(), nil
}

func (w *walk) last() *url.URL { return w.visited[len(w.visited)-1] }
