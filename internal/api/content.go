package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// contentPiece is how much of a file is in memory at a time, for each reader, in
// bytes.
const contentPiece = 128 << 10

// openContent opens one of a completed task's files: the copy where there is
// one, and else the upstream's. A task that has not completed has none, and its
// upstream is not asked.
func (c *core) openContent(ctx context.Context, n subject.TaskName, index int, r content.Request) (*content.File, error) {
	e, err := c.get(ctx, n)
	if err != nil {
		return nil, err
	}
	t := video(e)
	if t.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return nil, notReady(e).ForJob(n.ID)
	}
	if index < 0 || index > 0 && index >= len(t.GetVideos()) {
		return nil, fault.Invalid([]fault.Violation{{Field: "index", Description: "the task has " + strconv.Itoa(len(t.GetVideos())) + " videos; the first is 0"}}).ForJob(n.ID)
	}
	var file *genbusv1.Video
	if index < len(t.GetVideos()) {
		file = t.GetVideos()[index]
	}
	if ref := file.GetArchived(); ref != nil {
		f, err := content.OpenArchive(ctx, c.bodies, publisher.BodyOf(ref), ref.GetContentType(), r)
		if err != nil {
			return nil, meaning(ctx, n, err)
		}
		return f, nil
	}
	place, err := c.routes.Place(t, file.GetUrl())
	if err != nil {
		return nil, err
	}
	f, err := c.content.Open(ctx, place, r)
	if err != nil {
		return nil, meaning(ctx, n, err)
	}
	return f, nil
}

// notReady says what the status of a task without content is, in words that
// clients of this interface know.
func notReady(e tasklog.Entry) *fault.Error {
	word := task.StatusWord(e.Job.GetStatus())
	if e.Terminal() {
		return fault.New(fault.ContentNotReady, "Task has ended without content, current status: %s", strings.ToUpper(word))
	}
	return fault.New(fault.ContentNotReady, "Task is not completed yet, current status: %s", strings.ToUpper(word))
}

// getContent is GET and HEAD /v1/videos/{id}/content.
func (h *web) getContent(x *exchange) error {
	query := x.r.URL.Query()
	if v := query.Get("variant"); v != "" && v != "video" {
		return fault.Invalid([]fault.Violation{{Field: "variant", Description: "must be video; upstreams give genbus nothing else"}})
	}
	index, err := number(query.Get("index"), "index", 0, 0, 1<<16)
	if err != nil {
		return err
	}
	ctx, leave := h.core.drain.hold(x.ctx())
	defer leave()
	name := x.name(subject.Video)
	file, err := h.core.openContent(ctx, name, index, content.Request{
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
	if f.Status != http.StatusRequestedRangeNotSatisfiable { // which has no content
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
	x.armWrite()
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

// copyContent passes a file on, piece by piece. An answer that cannot be brought
// to its end is cut off: the client must not take it for whole.
func (x *exchange) copyContent(from io.Reader) error {
	buf := make([]byte, contentPiece)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			x.armWrite()
			if _, failed := x.Write(buf[:n]); failed != nil {
				panic(http.ErrAbortHandler) // the client is gone
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			x.note(meaning(x.ctx(), x.name(subject.Video), err))
			panic(http.ErrAbortHandler)
		}
	}
}
