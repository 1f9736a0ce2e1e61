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
	"unicode/utf8"
)

// maxKlingPrompt is the vendor's limit, in characters.
const maxKlingPrompt = 2500

// klingKind is a kind of Kling task, and the last segment of its path.
type klingKind string

const (
	textToVideo  klingKind = "text2video"
	imageToVideo klingKind = "image2video"
)

// klingRequest has the fields of a create that the sandbox reads.
type klingRequest struct {
	ModelName      string          `json:"model_name"`
	Model          string          `json:"model"` // for gateways; the vendor ignores it
	Prompt         string          `json:"prompt"`
	Image          string          `json:"image"`
	ImageTail      string          `json:"image_tail"`
	Duration       string          `json:"duration"`
	AspectRatio    string          `json:"aspect_ratio"`
	ExternalTaskID string          `json:"external_task_id"`
	Metadata       json.RawMessage `json:"metadata"`
}

// routeKling serves Kling's paths below prefix.
func (s *Sandbox) routeKling(prefix string) {
	for _, kind := range []klingKind{textToVideo, imageToVideo} {
		path := prefix + "/v1/videos/" + string(kind)
		s.mux.HandleFunc("POST "+path, s.klingAuthorised(s.creates(kind.protocol())))
		s.mux.HandleFunc("GET "+path+"/{id}", s.klingAuthorised(s.doorOf(refuseKling, s.getKling(kind))))
		s.mux.HandleFunc("GET "+path, s.klingAuthorised(s.doorOf(refuseKling, s.listKling(kind))))
	}
}

func (k klingKind) protocol() protocol {
	return protocol{name: "kling", refuse: refuseKling, read: func(s *Sandbox, r *http.Request, body []byte) (order, refusal) {
		return s.readKling(r, body, k)
	}}
}

func (s *Sandbox) readKling(r *http.Request, body []byte, kind klingKind) (order, refusal) {
	req, d, err := parseKling(body)
	invalid := func(err error) (order, refusal) {
		return order{}, d.refuse.refusal(http.StatusBadRequest, d.badParameter(), err.Error())
	}
	if err != nil {
		return invalid(err)
	}
	name, external := cmp.Or(req.ModelName, "kling-v1"), req.ExternalTaskID
	if d.gateway {
		name, external = req.Model, ""
	}
	base, suffix := splitModel(name)
	switch {
	case d.gateway && base == "":
		return order{}, modelNotNamed
	case !strings.HasPrefix(base, ModelKling):
		return order{}, d.refuse.refusal(http.StatusNotFound, codeNoResource, "model "+base+" is not found")
	}
	if err := req.check(kind); err != nil {
		return invalid(err)
	}
	b, err := s.behaviourOf(r, body, suffix, sandboxOf(req.Metadata))
	if err != nil {
		return invalid(err)
	}
	t := s.newTask(d, name, b)
	t.fromImage, t.external = kind == imageToVideo, external
	if err := t.setKling(req); err != nil {
		return invalid(err)
	}
	return order{t, b}, nil
}

// parseKling parses a create and returns the dialect that handles it. If the body is invalid, it
// returns the gateway's dialect if the body names the gateway's model, and the vendor's dialect
// otherwise.
func parseKling(body []byte) (klingRequest, *dialect, error) {
	var named struct {
		ModelName string `json:"model_name"`
		Model     string `json:"model"`
	}
	err := json.Unmarshal(body, &named)
	for _, name := range []string{named.ModelName, named.Model} {
		if base, _ := splitModel(name); base == ModelKlingGateway {
			req, err := parseKlingGateway(body)
			return req, klingGateway, err
		}
	}
	var req klingRequest
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		return req, kling, fmt.Errorf("read video request: %w", err)
	}
	return req, kling, nil
}

// parseKlingGateway parses a create like the common gateway program, which reads some fields from
// the body and the others from the metadata.
func parseKlingGateway(body []byte) (klingRequest, error) {
	var outer struct {
		Model    string          `json:"model"`
		Prompt   string          `json:"prompt"`
		Image    string          `json:"image"`
		Metadata json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(body, &outer); err != nil {
		return klingRequest{}, fmt.Errorf("read video request: %w", err)
	}
	req := klingRequest{Prompt: outer.Prompt, Image: outer.Image}
	if len(outer.Metadata) > 0 {
		if err := json.Unmarshal(outer.Metadata, &req); err != nil {
			return req, fmt.Errorf("read metadata: %w", err)
		}
	}
	req.Model, req.Metadata = outer.Model, outer.Metadata
	return req, nil
}

func (req klingRequest) check(kind klingKind) error {
	switch {
	case kind == textToVideo && req.Prompt == "":
		return errors.New("prompt is required")
	case utf8.RuneCountInString(req.Prompt) > maxKlingPrompt:
		return errors.New("prompt is longer than 2500 characters")
	case kind == imageToVideo && req.Image == "" && req.ImageTail == "":
		return errors.New("image or image_tail is required")
	case strings.HasPrefix(req.Image, "data:"), strings.HasPrefix(req.ImageTail, "data:"):
		return errors.New(`image and image_tail are URLs, or Base64 without a "data:" prefix`)
	default:
		return nil
	}
}

func (t *task) setKling(req klingRequest) error {
	seconds, err := strconv.Atoi(cmp.Or(req.Duration, "5"))
	if err != nil || seconds < 3 || seconds > 15 {
		return errors.New(`duration must be a string from "3" to "15"`)
	}
	t.seconds = float64(seconds)
	switch cmp.Or(req.AspectRatio, "16:9") {
	case "16:9": // the default of newTask
	case "9:16":
		t.width, t.height = t.height, t.width
	case "1:1":
		t.width = t.height
	default:
		return errors.New("aspect_ratio must be 16:9, 9:16 or 1:1")
	}
	return nil
}

// getKling answers a poll for a task by its ID or its external_task_id.
func (s *Sandbox) getKling(kind klingKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.count.polls.Add(1)
		id := r.PathValue("id")
		t := s.tasks.getEither(id)
		switch {
		case t != nil && t.isKling(kind):
		case strings.HasPrefix(id, "task_"):
			writeFlat(w, http.StatusBadRequest, "task_not_exist", "task_not_exist")
			return
		default:
			refuseKling(w, http.StatusNotFound, codeNoResource, "Task not found")
			return
		}
		if s.pollEnds(w, r, t, t.dialect.refuse) {
			return
		}
		now := time.Since(s.start)
		if t.dialect.gateway {
			answer := t.appendEnvelope(nil, t.at(now, &envelopeWords), s.start.Unix(), s.start.Add(now).Unix(), s.baseURL(r))
			writeJSON(w, http.StatusOK, answer)
			return
		}
		writeKling(w, s.klingTask(r, t))
	}
}

func (t *task) isKling(kind klingKind) bool {
	return (t.dialect == kling || t.dialect == klingGateway) && t.fromImage == (kind == imageToVideo)
}

// listKling lists the tasks of a kind, newest first. The gateway has no list.
func (s *Sandbox) listKling(kind klingKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		page, errPage := strconv.Atoi(cmp.Or(query.Get("pageNum"), "1"))
		size, errSize := strconv.Atoi(cmp.Or(query.Get("pageSize"), "30"))
		if errPage != nil || errSize != nil || page < 1 || page > 1000 || size < 1 || size > 500 {
			refuseKling(w, http.StatusBadRequest, codeBadParameter, "pageNum must be 1 to 1000 and pageSize 1 to 500")
			return
		}
		list := s.tasks.those(func(t *task) bool { return !t.dialect.gateway && t.isKling(kind) })
		slices.Reverse(list)
		begin := min((page-1)*size, len(list))
		tasks := []klingTask{}
		for _, t := range list[begin:min(begin+size, len(list))] {
			tasks = append(tasks, s.klingTask(r, t))
		}
		writeKling(w, tasks)
	}
}

// klingAuthorised calls next if the request carries Options.Key or no key is set.
func (s *Sandbox) klingAuthorised(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := r.Header.Get("Authorization")
		text, isBearer := strings.CutPrefix(header, bearer)
		_, isToken := issuerOf(text)
		switch {
		case s.opts.Key == "", header == bearer+s.opts.Key:
			next(w, r)
		case header == "":
			refuseKling(w, http.StatusUnauthorized, "1001", "Authorization is empty")
		case !isBearer || !isToken:
			refuseKling(w, http.StatusUnauthorized, "1002", "Authorization is invalid")
		default:
			refuseKling(w, http.StatusUnauthorized, "1000", "authentication failed")
		}
	}
}
