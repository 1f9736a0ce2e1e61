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

// maxFirstAlloc bounds the allocation for a mere Content-Length.
const maxFirstAlloc = 1 << 20

// body reads the whole body of a JSON request before anything is forwarded: an upstream that
// answers at once breaks a request that is still being sent.
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

// bodyLimit returns the largest body that is read, in bytes. Admission checks the tenant's limit,
// because it knows whether the request was accepted before.
func (x *exchange) bodyLimit() int64 { return int64(x.h.cfg.Now().HTTP.MaxBodyBytes) }

// expectBody bounds the arrival of a request's body even if no handler reads it, because net/http
// waits for the rest before it answers. Once the body has arrived, net/http itself removes the
// deadline and watches for the client's end.
func (h *Handler) expectBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != http.NoBody {
		// A writer without deadlines (a test's recorder) has no network to wait for.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.core.BodyTimeout))
	}
}

// unreadBody returns the error for a body with broken framing, one that was cut off, or one that
// came too late. It is the sender's fault on every path.
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

// checkMediaType accepts JSON and a missing type.
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
