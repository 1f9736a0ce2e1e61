package httpapi

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// maxFirstAlloc bounds the bytes allocated on the basis of a Content-Length alone.
const maxFirstAlloc = 1 << 20

// body reads the whole JSON body before anything is forwarded, because an upstream that answers
// early would break a request that is still being sent. It decodes the body.
func (x *exchange) body() ([]byte, error) {
	if err := checkMediaType(x.r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	limit := x.bodyLimit()
	sent, err := x.sentBody(limit)
	if err != nil {
		return nil, err
	}
	in, err := x.decoded(sent, limit)
	if err != nil {
		return nil, err
	}
	return x.readAll(in, limit)
}

// encodedBody reads the body, of at most limit bytes, without decoding it. body can read it again,
// and judges its media type, which only identified callers may learn.
func (x *exchange) encodedBody(limit int64) ([]byte, error) {
	sent, err := x.sentBody(limit)
	if err != nil {
		return nil, err
	}
	raw, err := x.readAll(sent, limit)
	x.r.Body = io.NopCloser(bytes.NewReader(raw))
	return raw, err
}

// sentBody returns the body as the client sends it. Reading more than limit bytes fails.
func (x *exchange) sentBody(limit int64) (io.ReadCloser, error) {
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	return http.MaxBytesReader(x.ResponseWriter, x.r.Body, limit), nil
}

// decoded returns the content of a body. Reading more than limit bytes of it fails, however few
// bytes were sent. Only gzip is decoded, because the standard library has no other coding that
// clients use for requests.
func (x *exchange) decoded(sent io.ReadCloser, limit int64) (io.ReadCloser, error) {
	switch coding := upstream.Encoding(x.r.Header); {
	case coding == "", strings.EqualFold(coding, "utf-8"): // some clients mean the charset
		return sent, nil
	case upstream.IsGzip(coding):
		in, err := gzip.NewReader(sent)
		if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
			return sent, nil // no body
		}
		if err != nil {
			return nil, unreadBody(err, limit)
		}
		return http.MaxBytesReader(x.ResponseWriter, in, limit), nil
	default:
		x.Header()["Accept-Encoding"] = []string{"gzip"} // RFC 9110, 15.5.16
		return nil, errcode.New(errcode.UnsupportedMedia, "content encoding %q is not supported; send the body without an encoding, or with gzip", errcode.Clip(coding, 64))
	}
}

func (x *exchange) readAll(in io.Reader, limit int64) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(int(min(max(x.r.ContentLength, 0), maxFirstAlloc)) + bytes.MinRead)
	if _, err := buf.ReadFrom(in); err != nil {
		return nil, unreadBody(err, limit)
	}
	return buf.Bytes(), nil
}

// bodyLimit returns the maximum body size in bytes for all tenants. Admission enforces the tenant's
// own limit, because only admission knows whether the request has been accepted before.
func (x *exchange) bodyLimit() int64 { return int64(x.h.cfg.Now().HTTP.MaxBodyBytes) }

// expectBody sets a deadline for receiving the request body. The deadline matters even if no
// handler reads the body, because net/http waits for the rest of it before it answers. Once the
// body has arrived, net/http itself removes the deadline and watches for a disconnect.
func (h *Handler) expectBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody {
		// Ignore the error: a writer without deadlines, such as a test recorder, has no network
		// connection.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.core.BodyTimeout))
	}
}

// unreadBody returns the error for a body that is too large, malformed, truncated or late. Each of
// these is the client's fault.
func unreadBody(err error, limit int64) error {
	var over *http.MaxBytesError
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &over):
		return tooLarge(limit)
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt):
		return errcode.New(errcode.InvalidRequest, "the body is not valid gzip data, which its content encoding says")
	}
	return errcode.New(errcode.InvalidRequest, "the request body is incomplete: %w", err)
}

func tooLarge(limit int64) error {
	return errcode.New(errcode.BodyTooLarge, "the body is larger than %d bytes; send a URL instead of the data", limit)
}

// checkMediaType accepts JSON types and a missing type.
func checkMediaType(value string) error {
	if value == "" || value == "application/json" {
		return nil
	}
	media, _, err := mime.ParseMediaType(value)
	if err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")) {
		return nil
	}
	return errcode.New(errcode.UnsupportedMedia, "content type %q is not supported; send application/json", errcode.Clip(value, 64))
}
