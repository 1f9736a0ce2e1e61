package httpapi

import (
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/api/core"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream/videos"
)

// headerPollAfter is the header that tells SDKs how long to wait before the next poll, in
// milliseconds.
const headerPollAfter = "Openai-Poll-After-Ms"

// createVideoObject serves POST /v1/videos. It accepts JSON or a multipart form, which may contain
// a file.
func (h *Handler) createVideoObject(x *exchange) error {
	raw, isForm, err := x.jsonOrForm()
	if err != nil {
		return err
	}
	req, err := x.request(subject.Video, body.Parse(raw))
	if err != nil {
		return err
	}
	req.Protocol, req.Form = protocol.Videos.Name, isForm
	e, err := h.core.Jobs.Submit(x.ctx(), req)
	if err != nil {
		return err
	}
	return x.videoObject(core.VideoOf(e))
}

// jsonOrForm reads the body of a create request and converts a form to equivalent JSON.
func (x *exchange) jsonOrForm() (raw []byte, isForm bool, err error) {
	media, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || media != "multipart/form-data" {
		raw, err = x.body()
		return raw, false, err
	}
	limit := x.bodyLimit()
	sent, err := x.sentBody(limit)
	if err != nil {
		return nil, true, err
	}
	if x.r.Body, err = x.decoded(sent, limit); err != nil {
		return nil, true, err
	}
	form, err := x.r.MultipartReader()
	if err != nil {
		return nil, true, errcode.New(errcode.InvalidRequest, "the form cannot be read: %w", err)
	}
	if raw, err = videos.FromMultipart(form, limit); err != nil {
		return nil, true, formFault(err, limit)
	}
	// The form ends at its last boundary, before the checksum of its gzip data.
	if _, err := io.Copy(io.Discard, x.r.Body); err != nil {
		return nil, true, unreadBody(err, limit)
	}
	return raw, true, nil
}

// getVideoObject serves GET /v1/videos/{id}.
func (h *Handler) getVideoObject(x *exchange) error {
	e, err := h.core.Jobs.Get(x.ctx(), x.name(subject.Video))
	if err != nil {
		return err
	}
	return x.videoObject(core.VideoOf(e))
}

func (x *exchange) videoObject(t *genbusv1.VideoTask) error {
	x.job(t)
	if route, ok := x.h.routeTable.Video(t.GetExecution().GetRoute()); ok && !task.Terminal(t.GetExecution().GetPhase()) {
		x.Header()[headerPollAfter] = []string{pollAfter(route.Poll.Interval)}
	}
	return x.json(http.StatusOK, body.VideoObjectJSON(x.linked(t)))
}

// pollAfter returns the route's poll interval in milliseconds, limited to the range that SDKs
// accept.
func pollAfter(interval time.Duration) string {
	const least, most = 500 * time.Millisecond, 8 * time.Second
	return strconv.FormatInt(min(max(interval, least), most).Milliseconds(), 10)
}

// listVideoObjects serves GET /v1/videos.
func (h *Handler) listVideoObjects(x *exchange) error {
	page, err := x.page(subject.Video, "desc")
	if err != nil {
		return err
	}
	tasks := make([]*genbusv1.VideoTask, 0, len(page.Jobs))
	for _, e := range page.Jobs {
		tasks = append(tasks, x.linked(core.VideoOf(e)))
	}
	return x.json(http.StatusOK, body.VideoObjectListJSON(tasks, page.NextToken != ""))
}

// page reads the page of jobs that the query selects as in OpenAI's lists. order is the default order.
func (x *exchange) page(kind subject.Kind, order string) (jobindex.Page, error) {
	query := x.r.URL.Query()
	limit, err := number(query.Get("limit"), "limit", jobtable.DefaultPage, 1, jobtable.MaxPage)
	if err != nil {
		return jobindex.Page{}, err
	}
	order = cmp.Or(query.Get("order"), order)
	if order != "asc" && order != "desc" {
		return jobindex.Page{}, errcode.Invalid([]errcode.Violation{{Field: "order", Description: mustBe("must be asc or desc", order)}})
	}
	return x.h.core.Jobs.List(x.ctx(), jobtable.Query{Kind: kind, Tenant: x.tenant, Size: limit, After: query.Get("after"), Ascending: order == "asc"})
}

// deleteVideoObject serves DELETE /v1/videos/{id}.
func (h *Handler) deleteVideoObject(x *exchange) error {
	name := x.name(subject.Video)
	if err := h.core.Jobs.Erase(x.ctx(), name); err != nil {
		return err
	}
	x.jobID(name.ID)
	return x.json(http.StatusOK, body.VideoDeletedJSON(name.ID))
}

// formFault returns the error for an invalid form.
func formFault(err error, limit int64) error {
	var field *body.FieldError
	var long *videos.TooLargeError
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &field):
		return errcode.Invalid([]errcode.Violation{{Field: field.Field, Description: field.Description}})
	case errors.As(err, &long), errors.As(err, &over):
		return tooLarge(limit)
	default:
		return errcode.New(errcode.InvalidRequest, "the form cannot be read to its end: %w", err)
	}
}
