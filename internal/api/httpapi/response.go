package httpapi

import (
	"cmp"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// response records the status of an answer, sets a deadline for each write, and replaces the mux's
// 404 and 405 answers with the error envelope.
type response struct {
	http.ResponseWriter
	r       *http.Request
	timeout time.Duration // for one write
	// surface is that of the vendor whose segment the path begins with. It is nil elsewhere.
	surface upstream.Surface
	status  int
	// disconnected is set if the status is 5xx and the client had already disconnected.
	disconnected bool
	// replaced is set if the mux's answer was replaced. The body that the mux then writes is
	// dropped.
	replaced bool
}

// Unwrap gives http.ResponseController access to Flush and the deadlines.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// arm sets the deadline of the next write.
func (w *response) arm() {
	// Ignore the error: a writer without deadlines, such as a test recorder, has no network
	// connection.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout))
}

// WriteHeader writes the status once.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	// If nothing matched, the mux leaves the pattern empty and has already set Allow.
	if w.r.Pattern == "" {
		if f := unmatched(status, w.r, w.Header().Get("Allow")); f != nil {
			w.replaced = true
			w.refuse(plain{w}, f)
			return
		}
	}
	w.status, w.disconnected = status, status >= http.StatusInternalServerError && errcode.Disconnected(w.r.Context())
	w.arm()
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.replaced {
		return len(b), nil
	}
	w.arm()
	return w.ResponseWriter.Write(b)
}

// refuse writes an error to out, which is w or plain{w}. Below a vendor's segment it has the
// vendor's envelope.
func (w *response) refuse(out http.ResponseWriter, f *errcode.Error) {
	if w.surface == nil {
		f.WriteHTTP(out)
		return
	}
	h := out.Header()
	f.SetHeader(h)
	h["Content-Type"] = []string{"application/json"}
	status, answer := w.surface.Refuse(f, h.Get("X-Request-Id"))
	out.WriteHeader(status)
	_, _ = out.Write(answer) // the client may have disconnected
}

// unmatched returns the error that replaces the mux's own answer, or nil if that answer is a
// redirect. allow lists the methods that the path supports.
func unmatched(status int, r *http.Request, allow string) *errcode.Error {
	switch status {
	case http.StatusNotFound:
		if r.URL.Path == "/" {
			return errcode.New(errcode.NotFound, "path / not found; see %s for the paths", pathDocs)
		}
		return errcode.New(errcode.NotFound, "path %s not found", errcode.Clip(r.URL.Path, 256))
	case http.StatusMethodNotAllowed:
		if isPreflight(r) && isShared(r) {
			return errcode.New(errcode.OriginNotAllowed, "web pages of %s may not call this path; add the origin to http.cors.origins", errcode.Clip(r.Header.Get("Origin"), 256))
		}
		return errcode.New(errcode.MethodNotAllowed, "%s supports only %s", errcode.Clip(r.URL.Path, 256), cmp.Or(allow, "other methods"))
	default:
		return nil
	}
}

// plain writes to a response without replacing errors.
type plain struct{ w *response }

func (p plain) Header() http.Header { return p.w.Header() }

func (p plain) WriteHeader(status int) {
	p.w.status = status
	p.w.Header().Del("X-Content-Type-Options")
	p.w.arm()
	p.w.ResponseWriter.WriteHeader(status)
}

func (p plain) Write(b []byte) (int, error) { return p.w.ResponseWriter.Write(b) }
