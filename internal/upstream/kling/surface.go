package kling

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// surface serves the vendor's own clients.
type surface struct{}

var (
	_ upstream.Surface = surface{}
	_ upstream.Lister  = surface{}
)

// externalPrefix turns an external_task_id into an idempotency key that cannot collide with keys
// from other paths.
const externalPrefix = externalMember + ":"

// jobID matches the ID of a video job. Any other value in its place is an external_task_id.
var jobID = regexp.MustCompile(`^video_[a-z2-7]{26}$`)

func (surface) Patterns() []string {
	var patterns []string
	for _, kind := range []string{textToVideo, imageToVideo} {
		path := videosPath + kind
		patterns = append(patterns, "POST "+path, "GET "+path+"/{id}", "GET "+path)
	}
	return patterns
}

// Read returns the operation that a request on one of the patterns asks for.
func (surface) Read(r *http.Request, raw []byte) (upstream.Call, error) {
	id := r.PathValue("id")
	path := r.URL.Path
	if id != "" {
		path = strings.TrimSuffix(path, "/"+id)
	}
	base, kind := path, ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		base, kind = path[:i+1], path[i+1:]
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case kind != textToVideo && kind != imageToVideo:
		return upstream.Call{}, errcode.New(errcode.NotFound, "path not found; the vendor's paths are %s%s and %s%s", videosPath, textToVideo, videosPath, imageToVideo)
	case reading && id != "":
		return readGet(id)
	case reading:
		return readList(r.URL.Query())
	case r.Method == http.MethodPost && id == "":
		return readCreate(base, kind, raw)
	default:
		return upstream.Call{}, errcode.New(errcode.MethodNotAllowed, "this path does not support the method; POST creates a task and GET reads one")
	}
}

// readCreate refuses a body on the path for the other kind of task, as the vendor does.
// Bodies.Check checks the other members.
func readCreate(base, kind string, raw []byte) (upstream.Call, error) {
	d := body.Parse(raw)
	if err := d.Err(); err != nil {
		return upstream.Call{}, body.Fault(err)
	}
	// Bodies.Check refuses a body for neither path.
	if other, _ := notServed(d); other == "" && kindOf(d) != kind {
		return upstream.Call{}, wrongPath(d, base+kindOf(d))
	}
	call := upstream.Call{Op: upstream.CreateTask, Body: d}
	id := d.Member(externalMember)
	if id == nil || string(id) == "null" || string(id) == `""` {
		return call, nil
	}
	wrong := isExternalID(id)
	if wrong == "" && jobID.MatchString(body.Text(id)) {
		wrong = "looks like a task ID; choose another one"
	}
	if wrong != "" {
		return upstream.Call{}, invalid(externalMember, "%s", wrong)
	}
	call.RequestID = externalPrefix + body.Text(id)
	return call, nil
}

func wrongPath(d body.Document, right string) error {
	for _, member := range []string{"image", "image_tail"} {
		if isSet(d.Member(member)) {
			return invalid(member, "makes it an image-to-video task; POST the body to %s", right)
		}
	}
	return invalid("image", "is missing, and so is image_tail; give one of them, or POST the body to %s", right)
}

// readGet accepts the task's ID or the client's external_task_id.
func readGet(id string) (upstream.Call, error) {
	switch {
	case jobID.MatchString(id):
		return upstream.Call{Op: upstream.GetTask, ID: id}, nil
	case isKey(id):
		return upstream.Call{Op: upstream.GetTask, RequestID: externalPrefix + id}, nil
	default:
		return upstream.Call{}, errcode.New(errcode.TaskNotFound, "task not found; the ID is neither a task ID nor an %s", externalMember)
	}
}

func readList(query url.Values) (upstream.Call, error) {
	page, err := number(query, "pageNum", 1, 1000)
	if err != nil {
		return upstream.Call{}, err
	}
	size, err := number(query, "pageSize", 30, 500)
	if err != nil {
		return upstream.Call{}, err
	}
	return upstream.Call{Op: upstream.ListTasks, Page: page, Size: size}, nil
}

// number parses a query parameter that must be from 1 to limit. If the parameter is missing, it
// returns otherwise.
func number(query url.Values, name string, otherwise, limit int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > limit {
		return 0, invalid(name, "must be a whole number from 1 to %d", limit)
	}
	return n, nil
}

func invalid(field, format string, args ...any) error {
	return errcode.Invalid([]errcode.Violation{{Field: field, Description: fmt.Sprintf(format, args...)}})
}
