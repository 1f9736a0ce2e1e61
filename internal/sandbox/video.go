package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	maxVideos = 10
	maxKey    = 255
)

// videoRequest is what the sandbox reads of a create body. Numbers may be
// written as strings, as some clients do.
type videoRequest struct {
	Model    string          `json:"model"`
	Prompt   string          `json:"prompt"`
	Image    json.RawMessage `json:"image"`
	Duration json.Number     `json:"duration"`
	Width    json.Number     `json:"width"`
	Height   json.Number     `json:"height"`
	FPS      json.Number     `json:"fps"`
	Seed     json.Number     `json:"seed"`
	N        json.Number     `json:"n"`
	Metadata json.RawMessage `json:"metadata"`
}

// createVideo accepts one task. The order matters to its users: the create is
// counted once its body is here, accepted unless it is refused, and only then
// delayed or cut, so that a caller who hears nothing cannot know.
func (s *Sandbox) createVideo(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	s.count.creates.Add(1)
	if len(key) > maxKey {
		writeFlat(w, http.StatusBadRequest, "invalid_request", "Idempotency-Key is longer than 255 bytes")
		return
	}
	if !s.videoKeys.arrive(key) {
		writeFull(w)
		return
	}
	t, b, ok := s.parseCreate(w, r, body, key)
	if !ok || s.stopsHere(w, r, b, writeFlatRefusal) {
		return
	}
	if t = s.accept(key, t); t == nil {
		writeFull(w)
		return
	}
	if b.Drop == DropAfterCreate {
		reset(w)
		return
	}
	if s.stalls(w, r, b) {
		return
	}
	w.Header().Set("X-Oneapi-Request-Id", newID("req_"))
	writeJSON(w, cmp.Or(b.Status, http.StatusOK), t.appendCreated(nil, s.start.Unix(), !b.NoID))
}

// parseCreate reads the task and the behaviour that body asks for; it has
// answered when ok is false.
func (s *Sandbox) parseCreate(w http.ResponseWriter, r *http.Request, body []byte, key string) (*task, Behaviour, bool) {
	req, err := parseVideo(body)
	if err != nil {
		writeFlat(w, http.StatusBadRequest, "invalid_request", err.Error())
		return nil, Behaviour{}, false
	}
	base, suffix := splitModel(req.Model)
	switch {
	case base == "":
		writeNested(w, http.StatusBadRequest, apiError{message: "Model name not specified", kind: kindNewAPI})
		return nil, Behaviour{}, false
	case base != ModelVideo && base != ModelVideoEnveloped:
		writeModelNotFound(w, req.Model)
		return nil, Behaviour{}, false
	case req.Prompt == "":
		writeFlat(w, http.StatusBadRequest, "invalid_request", "prompt is required")
		return nil, Behaviour{}, false
	}
	b, err := s.behaviourFor(r, body, suffix, sandboxOf(req.Metadata))
	if err == nil {
		b, err = s.limited(b, "video", cmp.Or(key, b.ID))
	}
	var t *task
	if err == nil {
		t, err = s.newTask(req, base == ModelVideoEnveloped, b)
	}
	if err != nil {
		writeFlat(w, http.StatusBadRequest, "invalid_request", err.Error())
		return nil, Behaviour{}, false
	}
	return t, b, true
}

// accept gives the task that key stands for: t, or the first one of that key.
func (s *Sandbox) accept(key string, t *task) *task {
	return s.videoKeys.accept(key, s.opts.RepeatCreates, func() *task {
		if !s.tasks.add(t) {
			return nil
		}
		return t
	})
}

func parseVideo(body []byte) (videoRequest, error) {
	var req videoRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return req, fmt.Errorf("read video request: %w", err)
	}
	return req, nil
}

// sandboxOf finds metadata.sandbox; metadata may be an object, or a string that
// holds one. Anything else has none.
func sandboxOf(metadata json.RawMessage) []byte {
	var text string
	if json.Unmarshal(metadata, &text) == nil {
		metadata = json.RawMessage(text)
	}
	var fields struct {
		Sandbox json.RawMessage `json:"sandbox"`
	}
	if json.Unmarshal(metadata, &fields) != nil {
		return nil
	}
	return fields.Sandbox
}

func (s *Sandbox) newTask(req videoRequest, enveloped bool, b Behaviour) (*task, error) {
	t := &task{
		id:        newID("task_"),
		model:     req.Model,
		created:   time.Since(s.start),
		duration:  s.opts.VideoDuration,
		enveloped: enveloped,
		fromImage: len(req.Image) > 0 && string(req.Image) != "null" && string(req.Image) != `""`,
		script:    newScript(b),
	}
	if b.DurationMS != nil {
		t.duration = time.Duration(*b.DurationMS) * time.Millisecond
	}
	if model, _ := splitModel(req.Model); model == req.Model {
		t.model = internModel(model)
	}
	return t, t.setNumbers(req)
}

// internModel lets all tasks of a model share one string.
func internModel(model string) string {
	if model == ModelVideoEnveloped {
		return ModelVideoEnveloped
	}
	return ModelVideo
}

func (t *task) setNumbers(req videoRequest) error {
	t.seconds = 5
	if req.Duration != "" {
		seconds, err := req.Duration.Float64()
		if err != nil || seconds <= 0 || seconds > 3600 {
			return errors.New("duration must be a number of seconds above 0, at most 3600")
		}
		t.seconds = seconds
	}
	var err error
	intOr := func(name string, n json.Number, fallback, lowest, highest int64) int64 {
		if n == "" {
			return fallback
		}
		v, e := n.Int64()
		if e != nil || v < lowest || v > highest {
			err = errors.Join(err, fmt.Errorf("%s must be an integer from %d to %d", name, lowest, highest))
		}
		return v
	}
	t.width = int32(intOr("width", req.Width, 1280, 1, 8192))
	t.height = int32(intOr("height", req.Height, 720, 1, 8192))
	t.fps = int32(intOr("fps", req.FPS, 30, 1, 240))
	t.videos = int32(intOr("n", req.N, 1, 1, maxVideos))
	t.seed = intOr("seed", req.Seed, fnvOf(t.id), -1<<62, 1<<62)
	return err
}

// getVideo answers a poll. It is the hot path: see encode.go.
func (s *Sandbox) getVideo(w http.ResponseWriter, r *http.Request) {
	s.count.polls.Add(1)
	t := s.tasks.get(r.PathValue("id"))
	if t == nil {
		writeFlat(w, http.StatusBadRequest, "task_not_exist", "task_not_exist")
		return
	}
	if t.script != nil && s.pollEnds(w, r, t.script) {
		return
	}
	now := time.Since(s.start)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := (*buf)[:0]
	if t.enveloped {
		b = t.appendEnvelope(b, t.at(now), s.start.Unix(), s.start.Add(now).Unix(), s.baseURL(r))
	} else {
		b = t.appendFlat(b, t.at(now), s.start.Unix(), s.baseURL(r))
	}
	*buf = b
	// Content-Length is left to net/http, which adds it to short answers for less.
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(b) // a client that has gone polls again or never
}

// pollEnds applies the poll faults of a task and says whether it has answered.
func (s *Sandbox) pollEnds(w http.ResponseWriter, r *http.Request, sc *script) bool {
	fails := sc.pollFails()
	if sc.pollDelay > 0 && !s.wait(r.Context(), sc.pollDelay) {
		reset(w)
		return true
	}
	if !fails {
		return false
	}
	b := Behaviour{Status: sc.pollStatus, Code: sc.pollCode}
	writeRefusalHeaders(w, r, b)
	writeFlatRefusal(w, b)
	return true
}
