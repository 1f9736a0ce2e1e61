package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	jimengVersion = "2022-08-31"
	jimengSubmit  = "CVSync2AsyncSubmitTask"
	jimengQuery   = "CVSync2AsyncGetResult"
)

// volcProblem is an error of Volcengine's API front end. The zero value means no error.
type volcProblem struct {
	status  int
	number  int
	code    string
	message string
}

// Errors of the front end.
var (
	noSignature    = volcProblem{http.StatusBadRequest, 100024, "InvalidAuthorization", "Invalid 'Authorization' header, Pls check your authorization header."}
	wrongSignature = volcProblem{http.StatusForbidden, 100010, "SignatureDoesNotMatch", "The request signature does not match the one that was calculated."}
	noAction       = volcProblem{http.StatusNotFound, 100008, "InvalidActionOrVersion", "Action must be " + jimengSubmit + " or " + jimengQuery + ", and Version " + jimengVersion + "."}
)

var jimengSpec = protocol{name: "jimeng", refuse: refuseJimeng, read: readJimeng}

// jimengSizes are the vendor's sizes by aspect ratio, for tasks without an image.
var jimengSizes = map[string][2]int32{
	"16:9": {1280, 720}, "4:3": {1112, 834}, "1:1": {960, 960},
	"3:4": {834, 1112}, "9:16": {720, 1280}, "21:9": {1470, 630},
}

// jimengRequest has the fields of a submission that the sandbox reads.
type jimengRequest struct {
	ReqKey       string          `json:"req_key"`
	Prompt       string          `json:"prompt"`
	Seed         *int64          `json:"seed"`
	Frames       *int            `json:"frames"`
	AspectRatio  string          `json:"aspect_ratio"`
	ImageURLs    []string        `json:"image_urls"`
	BinaryImages []string        `json:"binary_data_base64"`
	Metadata     json.RawMessage `json:"metadata"`
}

// callJimeng serves the vendor's only path. The query names the action.
func (s *Sandbox) callJimeng(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if problem := s.jimengProblem(r); problem.code != "" {
		writeVolcProblem(w, r, problem)
		return
	}
	query := r.URL.Query()
	switch action := query.Get("Action"); {
	case query.Get("Version") != jimengVersion:
		writeVolcProblem(w, r, noAction)
	case action == jimengSubmit:
		s.create(w, r, body, jimengSpec)
	case action == jimengQuery:
		s.getJimeng(w, r, body)
	default:
		writeVolcProblem(w, r, noAction)
	}
}

// jimengProblem checks the credentials of a call against Options.Key, if one is set.
func (s *Sandbox) jimengProblem(r *http.Request) volcProblem {
	header := r.Header.Get("Authorization")
	if s.opts.Key == "" || header == bearer+s.opts.Key {
		return volcProblem{}
	}
	if _, ok := signerOf(header); !ok {
		return noSignature
	}
	return wrongSignature
}

func readJimeng(s *Sandbox, r *http.Request, body []byte) (order, refusal) {
	invalid := func(err error) (order, refusal) {
		return order{}, refuser(refuseJimeng).refusal(http.StatusBadRequest, codeInvalidInput, err.Error())
	}
	var req jimengRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return invalid(fmt.Errorf("read video request: %w", err))
	}
	base, suffix := splitModel(req.ReqKey)
	if !strings.HasPrefix(strings.ReplaceAll(base, "_", "-"), ModelJimeng) {
		return order{}, refuser(refuseJimeng).refusal(http.StatusBadRequest, codeAccessDenied, "Access Denied: Internal Error")
	}
	if err := req.check(); err != nil {
		return invalid(err)
	}
	b, err := s.behaviourOf(r, body, suffix, sandboxOf(req.Metadata))
	if err != nil {
		return invalid(err)
	}
	t := s.newTask(jimeng, req.ReqKey, b)
	t.setJimeng(req)
	return order{t, b}, nil
}

func (req jimengRequest) check() error {
	images := len(req.ImageURLs) + len(req.BinaryImages)
	_, knownRatio := jimengSizes[req.AspectRatio]
	switch {
	case req.Prompt == "" && images == 0:
		return errors.New("prompt is required")
	case images > 2:
		return errors.New("at most two images are wanted")
	case slices.Contains(append(req.ImageURLs, req.BinaryImages...), ""):
		return errors.New("an image is empty")
	case req.AspectRatio != "" && !knownRatio:
		return errors.New("aspect_ratio must be 16:9, 4:3, 1:1, 3:4, 9:16 or 21:9")
	case req.Frames != nil && (*req.Frames < 25 || (*req.Frames-1)%24 != 0):
		return errors.New("frames must be 24 for each second and one more")
	default:
		return nil
	}
}

func (t *task) setJimeng(req jimengRequest) {
	t.fps = 24
	t.fromImage = len(req.ImageURLs)+len(req.BinaryImages) > 0
	if req.Frames != nil {
		t.seconds = float64((*req.Frames - 1) / 24)
	}
	if size, ok := jimengSizes[req.AspectRatio]; ok {
		t.width, t.height = size[0], size[1]
	}
	if req.Seed != nil {
		t.seed = *req.Seed
	}
}

// getJimeng answers a query. A failed task is answered with an HTTP error and the code of the
// failure. A missing task, or one with another req_key, is answered with the state not_found.
func (s *Sandbox) getJimeng(w http.ResponseWriter, r *http.Request, body []byte) {
	s.count.polls.Add(1)
	var req struct {
		ReqKey string `json:"req_key"`
		TaskID string `json:"task_id"`
	}
	if err := json.Unmarshal(body, &req); err != nil || req.ReqKey == "" || req.TaskID == "" {
		refuseJimeng(w, http.StatusBadRequest, codeInvalidInput, "req_key and task_id are required")
		return
	}
	if s.readEnds(w, r, body, r.URL.Path+" "+req.TaskID, refuseJimeng) {
		return
	}
	t := s.tasks.get(req.TaskID)
	if t == nil || t.dialect != jimeng || t.model != req.ReqKey {
		writeJimeng(w, jimengResult{Status: "not_found"})
		return
	}
	if s.pollEnds(w, r, t, refuseJimeng) {
		return
	}
	st := t.at(time.Since(s.start), &jimengWords)
	switch {
	case st.outcome == completed:
		writeJimeng(w, jimengResult{Status: st.word, VideoURL: s.baseURL(r) + t.filePath(0), AIGCMetaTagged: true})
	case st.outcome == failed && st.word != "expired": // "expired" from a script is reported as a state
		code, message := t.failureOr(codeTextRisk, "Post Text Risk Not Pass")
		refuseJimeng(w, http.StatusBadRequest, code, message)
	default:
		writeJimeng(w, jimengResult{Status: st.word})
	}
}
