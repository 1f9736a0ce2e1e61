package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// compatible is the OpenAI-compatible Videos API.
var compatible = protocol{name: "videos", refuse: refuseOpenAI, read: readCompatible}

// videosRequest has the fields of a create that the sandbox reads.
type videosRequest struct {
	Model          string          `json:"model"`
	Prompt         string          `json:"prompt"`
	Seconds        *string         `json:"seconds"`
	Size           string          `json:"size"`
	InputReference json.RawMessage `json:"input_reference"`
	Metadata       json.RawMessage `json:"metadata"`

	isForm  bool
	hasFile bool // input_reference was a form part
}

func (s *Sandbox) routeVideos() {
	s.mux.HandleFunc("POST /v1/videos", s.authorised(s.creates(compatible)))
	s.mux.HandleFunc("GET /v1/videos", s.authorised(s.doorOf(refuseOpenAI, s.listCompatible)))
	s.mux.HandleFunc("GET /v1/videos/{id}", s.authorised(s.doorOf(refuseOpenAI, s.getCompatible)))
	s.mux.HandleFunc("DELETE /v1/videos/{id}", s.authorised(s.doorOf(refuseOpenAI, s.deleteCompatible)))
	// ServeMux rejects ".../{id}/content" because it conflicts with ".../text2video/{id}".
	content := s.authorised(s.door(s.getContent))
	s.mux.HandleFunc("GET /v1/videos/{id}/{part}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("part") != "content" {
			invalidURL(w, r)
			return
		}
		content(w, r)
	})
}

// refuseOpenAI is the refuser of the compatible API.
func refuseOpenAI(w http.ResponseWriter, status int, code, message string) {
	kind := kindInvalid
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case status >= 500:
		kind = "server_error"
	}
	writeNested(w, status, apiError{code: cmp.Or(code, codeOf(status)), message: message, kind: kind})
}

func readCompatible(s *Sandbox, r *http.Request, body []byte) (order, refusal) {
	req, err := parseVideos(r, body)
	base, suffix := splitModel(req.Model)
	d := videos
	if base == ModelVideosGateway {
		d = videosGateway
	}
	invalid := func(code string, err error) (order, refusal) {
		return order{}, d.refuse.refusal(http.StatusBadRequest, code, err.Error())
	}
	switch {
	case err != nil:
		return invalid("invalid_json", err)
	case base == "":
		return invalid("missing_model", errors.New("model is required"))
	case base != ModelVideos && base != ModelVideosGateway:
		return order{}, modelNotFound(req.Model)
	case req.Prompt == "" && !req.fromImage():
		return invalid("", errNoPrompt)
	}
	if err := req.checkReference(d); err != nil {
		return invalid("invalid_json", err)
	}
	b, err := s.behaviourOf(r, body, suffix, sandboxOf(req.Metadata))
	if err != nil {
		return invalid("", err)
	}
	t := s.newTask(d, req.Model, b)
	t.fromImage = req.fromImage()
	if err := t.setSeconds(req.Seconds); err != nil {
		return invalid("", err)
	}
	if err := t.setSize(cmp.Or(req.Size, "720x1280")); err != nil {
		return invalid("invalid_size", err)
	}
	if d == videos {
		t.prompt = req.Prompt
	}
	return order{t, b}, nil
}

// parseVideos parses a create. On a JSON error it returns the fields read so far, because the model
// selects the envelope of the error.
func parseVideos(r *http.Request, body []byte) (videosRequest, error) {
	if isForm(r) {
		return parseForm(r, body)
	}
	var req videosRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return req, fmt.Errorf("read videos request: %w", err)
	}
	if string(req.InputReference) == "null" {
		req.InputReference = nil
	}
	return req, nil
}

func (req videosRequest) fromImage() bool { return req.hasFile || len(req.InputReference) > 0 }

// checkReference requires a string as input_reference for the gateway and an object for others, as
// on real servers. In a form, both accept a file or a field.
func (req videosRequest) checkReference(d *dialect) error {
	if req.isForm || len(req.InputReference) == 0 {
		return nil
	}
	var text string
	if err := json.Unmarshal(req.InputReference, &text); d.gateway {
		if err != nil {
			return errors.New("input_reference must be a string")
		}
		return nil
	}
	var object struct {
		ImageURL string `json:"image_url"`
		FileID   string `json:"file_id"`
	}
	if json.Unmarshal(req.InputReference, &object) != nil || (object.ImageURL == "") == (object.FileID == "") {
		return errors.New("input_reference must be an object with image_url or file_id")
	}
	return nil
}

func (t *task) setSeconds(text *string) error {
	t.seconds = 4
	if text == nil {
		return nil
	}
	seconds, err := strconv.ParseFloat(*text, 64)
	if err != nil || !(seconds > 0 && seconds <= 3600) {
		return errors.New("seconds must be a number above 0, at most 3600, as a string")
	}
	t.seconds = seconds
	return nil
}

func (t *task) setSize(size string) error {
	w, h, _ := strings.Cut(size, "x")
	width, errW := strconv.ParseInt(w, 10, 32)
	height, errH := strconv.ParseInt(h, 10, 32)
	if errW != nil || errH != nil || min(width, height) < 1 || max(width, height) > 8192 {
		return errors.New(`size must be "WIDTHxHEIGHT", at most 8192 each`)
	}
	t.width, t.height = int32(width), int32(height)
	return nil
}

func (s *Sandbox) getCompatible(w http.ResponseWriter, r *http.Request) {
	s.count.polls.Add(1)
	t := s.tasks.get(r.PathValue("id"))
	if t == nil {
		writeNoVideo(w, r.PathValue("id"))
		return
	}
	if s.pollEnds(w, r, t, t.compatibleRefuser()) {
		return
	}
	writeAny(w, http.StatusOK, s.videoObject(r, t))
}

// compatibleRefuser returns the compatible API's refuser, or the gateway's refuser for tasks of
// other APIs.
func (t *task) compatibleRefuser() refuser {
	if t.dialect == videos {
		return refuseOpenAI
	}
	return refuseFlat
}

// writeNoVideo answers a request for an unknown ID. IDs with the gateway's prefix get the gateway's
// answer.
func writeNoVideo(w http.ResponseWriter, id string) {
	if strings.HasPrefix(id, "task_") {
		writeFlat(w, http.StatusBadRequest, "task_not_exist", "task_not_exist")
		return
	}
	writeNested(w, http.StatusNotFound, apiError{code: "video_not_found", message: "Video with id '" + id + "' not found.", kind: kindInvalid})
}

// deleteCompatible deletes an ended task. The gateway has no such path.
func (s *Sandbox) deleteCompatible(w http.ResponseWriter, r *http.Request) {
	t := s.tasks.get(r.PathValue("id"))
	switch {
	case t == nil:
		writeNoVideo(w, r.PathValue("id"))
	case t.dialect != videos:
		invalidURL(w, r)
	case !t.at(time.Since(s.start), &t.dialect.words).outcome.ended():
		refuseOpenAI(w, http.StatusBadRequest, "", "Only a completed or failed video can be deleted.")
	default:
		s.tasks.remove(t)
		writeAny(w, http.StatusOK, videoDeleted{ID: t.id, Object: "video.deleted", Deleted: true})
	}
}

// listCompatible lists the videos of the compatible API. The default order is newest first.
func (s *Sandbox) listCompatible(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(cmp.Or(query.Get("limit"), "20"))
	order := cmp.Or(query.Get("order"), "desc")
	if err != nil || limit < 0 || limit > 100 || order != "asc" && order != "desc" {
		refuseOpenAI(w, http.StatusBadRequest, "", "limit must be 0 to 100, and order asc or desc")
		return
	}
	list := s.tasks.those(func(t *task) bool { return t.dialect == videos })
	if order == "desc" {
		slices.Reverse(list)
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(list, func(t *task) bool { return t.id == after })
		if i < 0 {
			writeNoVideo(w, after)
			return
		}
		list = list[i+1:]
	}
	page := videoPage{Object: "list", Data: []any{}, HasMore: len(list) > limit}
	for _, t := range list[:min(limit, len(list))] {
		page.Data = append(page.Data, s.videoObject(r, t))
		page.FirstID = cmp.Or(page.FirstID, &t.id)
		page.LastID = &t.id
	}
	writeAny(w, http.StatusOK, page)
}
