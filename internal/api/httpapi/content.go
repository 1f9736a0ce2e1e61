package httpapi

import (
	"io"
	"net/http"
	"strconv"

	"github.com/genbus/genbus/internal/api/core"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// contentPiece is the size of a download's copy buffer, in bytes.
const contentPiece = 128 << 10

// getContent serves GET and HEAD /v1/videos/{id}/content.
func (h *Handler) getContent(x *exchange) error {
	query := x.r.URL.Query()
	if v := query.Get("variant"); v != "" && v != "video" {
		return errcode.Invalid([]errcode.Violation{{Field: "variant", Description: mustBe("must be video: upstreams return nothing else", v)}})
	}
	index, err := number(query.Get("index"), "index", 0, 0, 1<<16)
	if err != nil {
		return err
	}
	name := x.name(subject.Video)
	file, err := h.core.Content.Open(x.ctx(), name, index, content.Request{
		Range: x.r.Header.Get("Range"), IfRange: x.r.Header.Get("If-Range"), HeadOnly: x.r.Method == http.MethodHead,
	})
	if err != nil {
		return err
	}
	defer func() { _ = file.Body.Close() }()
	x.jobID(name.ID)
	x.contentHeader(file, name.ID)
	x.WriteHeader(file.Status)
	if x.r.Method == http.MethodHead || file.Status == http.StatusRequestedRangeNotSatisfiable {
		return nil
	}
	return x.copyContent(file.Body)
}

func (x *exchange) contentHeader(f *content.File, id string) {
	h := x.Header()
	if f.Status != http.StatusRequestedRangeNotSatisfiable { // this status has no content
		h.Set("Content-Type", f.Type)
		h.Set("Content-Disposition", `attachment; filename="`+id+extension(f.Type)+`"`)
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("X-Content-Type-Options", "nosniff")
	for name, value := range map[string]string{"Content-Range": f.Range, "Etag": f.ETag, "Last-Modified": f.LastModified} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if f.Length >= 0 {
		h.Set("Content-Length", strconv.FormatInt(f.Length, 10))
	}
}

func extension(mediaType string) string {
	switch mediaType {
	case "video/mp4":
		return ".mp4"
	case "video/webm":
		return ".webm"
	case "video/quicktime":
		return ".mov"
	default:
		return ""
	}
}

// copyContent copies a file to the client. If it cannot complete the answer, it aborts the
// connection so that the client does not mistake a partial file for a complete one.
func (x *exchange) copyContent(from io.Reader) error {
	buf := make([]byte, contentPiece)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, failed := x.Write(buf[:n]); failed != nil {
				panic(http.ErrAbortHandler) // the client has disconnected
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			x.note(core.Explain(x.ctx(), x.name(subject.Video), err))
			panic(http.ErrAbortHandler)
		}
	}
}
