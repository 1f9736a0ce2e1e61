package content

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// maxText limits the bytes read from a JSON response or an error.
const maxText = 1 << 20

// accept handles a 2xx response, which is the content or JSON that names the content's URL.
func (w *walk) accept(resp *http.Response) (f *File, next string, err error) {
	defer func() {
		if f == nil {
			_ = resp.Body.Close()
		}
	}()
	// Decode only JSON, because it is parsed here. The length and ranges of a file refer to the
	// bytes as sent.
	if resp.StatusCode != http.StatusPartialContent && declaredType(resp.Header.Get("Content-Type")) == typeJSON {
		upstream.Decode(resp)
	}
	if encoding := upstream.Encoding(resp.Header); encoding != "" {
		return nil, "", w.unavailable(resp, fmt.Sprintf("sent compressed content (Content-Encoding %.100q), which genbus did not request", encoding))
	}
	part, err := w.part(resp)
	if err != nil {
		return nil, "", err
	}
	body := bufio.NewReaderSize(resp.Body, sniffed)
	kind, err := identify(body, resp.Header.Get("Content-Type"), part == nil || part.first == 0)
	switch {
	case err != nil:
		return nil, "", err
	case kind == typeJSON && part != nil && part.size() != part.length:
		return nil, "", errPartOfJSON
	case kind == typeJSON:
		next, err = w.holder(resp, body)
		return nil, next, err
	case kind == typeHTML:
		return nil, "", w.unavailable(resp, "sent a web page instead of a video")
	case !hasContent(resp):
		return nil, "", w.unavailable(resp, fmt.Sprintf("answered %s instead of content", statusText(resp)))
	}
	f = &File{
		Type: kind, Length: resp.ContentLength, ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified"),
		Body: struct {
			io.Reader
			io.Closer
		}{body, resp.Body},
	}
	if part == nil {
		return w.want.of(f), "", nil
	}
	f.Status, f.Range, f.Length = http.StatusPartialContent, part.String(), part.size()
	return w.want.sized(f, 0), "", nil
}

// hasContent reports whether a 2xx status carries content, unlike 202 or 204. An empty body is not
// a video.
func hasContent(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusPartialContent:
		return resp.ContentLength != 0
	default:
		return false
	}
}

// part returns the range of a 206. It is nil for any other status, and for an unrequested 206 that
// covers the whole content.
func (w *walk) part(resp *http.Response) (*contentRange, error) {
	if resp.StatusCode != http.StatusPartialContent {
		return nil, nil
	}
	part := parseContentRange(resp.Header.Get("Content-Range"))
	if part == nil || resp.ContentLength >= 0 && resp.ContentLength != part.size() {
		return nil, w.unavailable(resp, "sent an unidentified part")
	}
	if w.asked.part == nil && part.size() == part.length {
		return nil, nil
	}
	if w.asked.part == nil || !part.answers(*w.asked.part) {
		return nil, w.unavailable(resp, "sent a different part than requested")
	}
	return part, nil
}

// holder extracts the content's URL from a JSON response. JSON without a URL is an error, whatever
// the status.
func (w *walk) holder(resp *http.Response, body io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxText+1))
	if _, ours := errors.AsType[*errcode.Error](err); err != nil && !ours { // damaged gzip data, not a failed connection
		return "", w.unavailable(resp, "sent invalid JSON instead of a video: "+err.Error())
	}
	if err != nil {
		return "", err
	}
	if len(raw) > maxText {
		return "", w.unavailable(resp, fmt.Sprintf("sent more than %d bytes of JSON instead of a video", maxText))
	}
	if found := upstream.FindResults(raw); len(found) > 0 {
		return found[0].URL, nil
	}
	said, readable := upstream.ParseErrorBody(raw)
	if !readable {
		return "", w.unavailable(resp, "sent JSON without a URL instead of a video")
	}
	e := w.unavailable(resp, "sent an error instead of a video: "+cmp.Or(said.Message, said.Code))
	e.UpstreamCode = w.clean(said.Code)
	return "", e
}

// refusal converts an error response to an error. Other hosts get no credentials from genbus, so a
// 401 or 403 from them means that the URL's signature has expired.
func (w *walk) refusal(resp *http.Response) *errcode.Error {
	upstream.Decode(resp)
	// If the response is cut off, use the part that arrived.
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, maxText))
	said, readable := upstream.ParseErrorBody(raw)
	text := "answered " + statusText(resp)
	if readable && said.Message != "" {
		text += ": " + said.Message
	}
	own := w.owns(resp.Request.URL)
	code := refusalCode(resp.StatusCode, own)
	// Amazon S3 sends this when the credentials that signed the URL have expired.
	if !own && bytes.Contains(raw, []byte("<Code>ExpiredToken</Code>")) {
		code = errcode.ContentExpired
	}
	e := w.failed(code, resp.Request.URL, text, nil)
	e.RetryAfter = upstream.RetryAfter(resp.Header)
	e.UpstreamHTTPStatus, e.UpstreamRequestID = resp.StatusCode, upstream.RequestID(resp.Header)
	if readable {
		e.UpstreamCode = w.clean(said.Code)
	}
	return e
}

func refusalCode(status int, own bool) errcode.Code {
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return errcode.ContentExpired
	case !own && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		return errcode.ContentExpired
	default:
		return errcode.ContentUnavailable
	}
}

func (w *walk) unavailable(resp *http.Response, text string) *errcode.Error {
	e := w.failed(errcode.ContentUnavailable, resp.Request.URL, text, nil)
	e.UpstreamHTTPStatus, e.UpstreamRequestID = resp.StatusCode, upstream.RequestID(resp.Header)
	return e
}

func statusText(resp *http.Response) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
}
