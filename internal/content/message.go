package content

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"strings"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// failed returns an error about a response from u. It names the upstream or the host, but never the
// rest of the URL.
func (w *walk) failed(code errcode.Code, u *url.URL, text string, cause error) *errcode.Error {
	who := "host " + u.Host
	if w.owns(u) {
		who = "upstream " + w.place.Endpoint.Name
	}
	return &errcode.Error{Code: code, Message: w.clean(who + ": " + text), Err: cause}
}

// broken returns the error for a missing or truncated response. ctx is the caller's context.
// callCtx is the call's own context. Its cause explains why genbus ended the call.
func (w *walk) broken(ctx, callCtx context.Context, u *url.URL, what string, err error) *errcode.Error {
	err = causeOf(err)
	reason := upstream.Reason(err)
	if cause := context.Cause(callCtx); cause != nil {
		reason = cause.Error()
	}
	switch {
	case errors.Is(err, errPrivate):
		return w.failed(errcode.ContentBlocked, u, "it has a private address, which genbus does not connect to", err)
	case errors.Is(ctx.Err(), context.Canceled):
		return w.failed(errcode.CallerGone, u, what+": "+reason, err)
	default:
		return w.failed(errcode.ContentUnavailable, u, what+": "+reason, err)
	}
}

// causeOf returns the cause of an upstream's error, and other errors unchanged.
func causeOf(err error) error {
	if said, ok := errors.AsType[*upstream.Error](err); ok && said.Err != nil {
		return said.Err
	}
	return err
}

// Parts of URLs to remove from texts that others wrote: the query and fragment, and the user
// information.
var (
	urlQuery = regexp.MustCompile(`(?i)(https?://[^\s"'<>?#]*)[?#][^\s"'<>]*`)
	urlUser  = regexp.MustCompile(`(?i)(https?://)[^\s"'<>/@]*@`)
)

// clean removes keys and URL queries, which may hold signatures, from text that may come from an
// upstream.
func (w *walk) clean(text string) string {
	const minValue = 8 // shorter values of a query are often ordinary words
	for _, value := range w.queries() {
		if len(value) >= minValue {
			text = upstream.Redact(text, value)
		}
	}
	if ep := w.place.Endpoint; ep != nil {
		text = upstream.Redact(text, ep.Secrets()...)
	}
	text = urlQuery.ReplaceAllString(text, "$1")
	text = urlUser.ReplaceAllString(text, "$1")
	return upstream.CutMessage(text)
}

// queries returns the queries of the visited URLs, their values, and passwords in the URLs.
func (w *walk) queries() []string {
	var out []string
	for _, u := range w.visited {
		out = append(out, u.RawQuery)
		for pair := range strings.SplitSeq(u.RawQuery, "&") {
			_, raw, _ := strings.Cut(pair, "=")
			plain, _ := url.QueryUnescape(raw)
			out = append(out, raw, plain)
		}
		if password, ok := u.User.Password(); ok {
			out = append(out, password)
		}
	}
	return out
}
