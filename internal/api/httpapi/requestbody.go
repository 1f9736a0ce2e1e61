package httpapi

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

// maxFirstAlloc bounds the bytes allocated on the basis of a Content-Length alone.
const maxFirstAlloc = 1 << 20

// body reads the whole JSON body before anything is forwarded, because an upstream that answers
// early would break a request that is still being sent.
func (x *exchange) body() ([]byte, error) { return x.bodyUpTo(x.bodyLimit()) }

func (x *exchange) bodyUpTo(limit int64) ([]byte, error) {
	if err := checkMediaType(x.r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if x.r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(x.r.ContentLength, 0), maxFirstAlloc)) + bytes.MinRead)
	if _, err := buf.ReadFrom(http.MaxBytesReader(x.ResponseWriter, x.r.Body, limit)); err != nil {
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
	if errors.As(err, &over) {
		return tooLarge(limit)
	}
	return errcode.New(errcode.InvalidRequest, "the request body did not arrive completely: %w", err)
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
