package sandbox

import (
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

// videoRequest has the fields of a create that the sandbox reads. Some clients send numbers as
// strings.
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

// errNoPrompt refuses a create with neither prompt nor image.
var errNoPrompt = errors.New("prompt is required without an image")

// primary is the API that genbus itself offers.
var primary = protocol{name: "primary", refuse: refuseFlat, read: readPrimary}

func readPrimary(s *Sandbox, r *http.Request, body []byte) (order, refusal) {
	invalid := func(message string) (order, refusal) {
		return order{}, refuser(refuseFlat).refusal(http.StatusBadRequest, "", message)
	}
	req, err := parseVideo(body)
	if err != nil {
		return invalid(err.Error())
	}
	base, suffix := splitModel(req.Model)
	switch {
	case base == "":
		return order{}, modelNotNamed
	case base != ModelVideo && base != ModelVideoEnveloped:
		return order{}, modelNotFound(req.Model)
	}
	b, err := s.behaviourOf(r, body, suffix, sandboxOf(req.Metadata))
	if err != nil {
		return invalid(err.Error())
	}
	t, err := s.newVideo(req, base, b)
	if err != nil {
		return invalid(err.Error())
	}
	return order{t, b}, nil
}

func parseVideo(body []byte) (videoRequest, error) {
	var req videoRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return req, fmt.Errorf("read video request: %w", err)
	}
	return req, nil
}

// sandboxOf returns metadata.sandbox, or nil if it is missing. metadata may be an object or a
// string that contains one.
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

func (s *Sandbox) newVideo(req videoRequest, base string, b Behaviour) (*task, error) {
	d := flat
	if base == ModelVideoEnveloped {
		d = enveloped
	}
	t := s.newTask(d, req.Model, b)
	t.fromImage = len(req.Image) > 0 && string(req.Image) != "null" && string(req.Image) != `""`
	if req.Prompt == "" && !t.fromImage {
		return nil, errNoPrompt
	}
	return t, t.setNumbers(req)
}

func (t *task) setNumbers(req videoRequest) error {
	if req.Duration != "" {
		seconds, err := req.Duration.Float64()
		if err != nil || seconds <= 0 || seconds > 3600 {
			return errors.New("duration must be a number of seconds above 0, at most 3600")
		}
		t.seconds = seconds
	}
	var err error
	intOr := func(name string, n json.Number, usual, lowest, highest int64) int64 {
		if n == "" {
			return usual
		}
		v, e := n.Int64()
		if e != nil || v < lowest || v > highest {
			err = errors.Join(err, fmt.Errorf("%s must be an integer from %d to %d", name, lowest, highest))
		}
		return v
	}
	t.width = int32(intOr("width", req.Width, int64(t.width), 1, 8192))
	t.height = int32(intOr("height", req.Height, int64(t.height), 1, 8192))
	t.fps = int32(intOr("fps", req.FPS, int64(t.fps), 1, 240))
	t.videos = int32(intOr("n", req.N, int64(t.videos), 1, maxVideos))
	t.seed = intOr("seed", req.Seed, t.seed, -1<<62, 1<<62)
	return err
}

// getVideo answers a poll. It is the hot path; see encode.go.
func (s *Sandbox) getVideo(w http.ResponseWriter, r *http.Request) {
	s.count.polls.Add(1)
	t := s.tasks.get(r.PathValue("id"))
	if t == nil {
		writeFlat(w, http.StatusBadRequest, "task_not_exist", "task_not_exist")
		return
	}
	if s.pollEnds(w, r, t, refuseFlat) {
		return
	}
	now := time.Since(s.start)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	b := (*buf)[:0]
	switch st := t.at(now, t.dialect.primaryWords()); {
	case t.script != nil && t.script.shape != nil:
		b = t.appendShaped(b, now, s.start, s.baseURL(r))
	case t.dialect.gateway:
		b = t.appendEnvelope(b, st, s.start.Unix(), s.start.Add(now).Unix(), s.baseURL(r))
	default:
		b = t.appendFlat(b, st, s.start.Unix(), s.baseURL(r))
	}
	*buf = b
	// net/http adds Content-Length to short answers with fewer allocations.
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write(b) // the client may have disconnected
}

// pollEnds applies the poll faults of a task and reports whether it has ended the request.
func (s *Sandbox) pollEnds(w http.ResponseWriter, r *http.Request, t *task, refuse refuser) bool {
	sc := t.script
	if sc == nil {
		return false
	}
	fails := sc.pollFails()
	if sc.pollDelay > 0 && !s.wait(r.Context(), sc.pollDelay) {
		reset(w)
		return true
	}
	if !fails {
		return false
	}
	writeRefusal(w, r, Behaviour{Status: sc.pollStatus, Code: sc.pollCode}, refuse)
	return true
}
