package upstream

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// This file finds values that servers put under other names, or deeper, than their protocol says.
// The protocols read their own places first. Names are squeezed, so that "taskid" matches
// "task_id", "taskId" and "TaskID".

// maxSearchDepth limits how deep a value may be nested, as in
// {"data":{"task_result":{"videos":[{"url"}]}}}.
const maxSearchDepth = 6

var (
	// taskIDNames lists the members that hold the ID of a task, best first.
	taskIDNames = []string{"taskid", "videoid", "jobid", "generationid", "predictionid", "operationid", "taskuuid"}
	// statusNames lists the members that hold the status of a task.
	statusNames = []string{"status", "taskstatus", "jobstatus", "state"}
	// payloadNames lists the members inside which servers put a task.
	payloadNames = []string{
		"data", "output", "outputs", "result", "results", "response", "resp", "generatevideoresponse", "payload",
		"task", "tasks", "job", "jobs", "video", "videos", "generation", "generations", "prediction",
	}
	// envelopeNames lists the members that make an object the envelope of an answer.
	envelopeNames = []string{"code", "errcode", "statuscode", "baseresp"}
	// resultNames lists the members in which servers put the URL of a result, best first. Members
	// that are URLs come before members that contain one.
	resultNames = []string{
		"url", "videourl", "resulturl", "downloadurl", "contenturl", "fileurl", "outputurl", "signedurl", "videouri", "uri",
		"unsignedurls", "videourls", "resulturls", "outputurls", "urls",
		"data", "metadata", "content", "output", "outputs", "result", "results", "response", "resp", "taskresult", "task",
		"video", "videos", "generatevideoresponse", "generatedsamples", "generatedvideos", "generations", "creations",
		"assets", "file", "files",
	}
)

// levels returns an answer's object and the objects inside its payload, the nearest to the top
// first. With lists it also returns the first item of a list.
func levels(answer jsontext.Value, lists bool) (found []fields) {
	level := []jsontext.Value{answer}
	for range maxSearchDepth {
		var below []jsontext.Value
		for _, v := range level {
			if v.Kind() == '[' && lists {
				v = firstItem(v)
			}
			if v.Kind() != '{' {
				continue
			}
			m := membersOf(v)
			found = append(found, m)
			for _, name := range payloadNames {
				below = append(below, m[name])
			}
		}
		level = below
	}
	return found
}

func firstItem(list jsontext.Value) jsontext.Value {
	var items lax.List[jsontext.Value]
	if json.Unmarshal(list, &items, lax.Options) != nil || len(items) == 0 {
		return nil
	}
	return items[0]
}

// searchTaskID finds the ID in the answer to a create, or returns "". A member that is named after
// the task is better than a bare "id", and that is better than the ID of a request.
func searchTaskID(resp *http.Response, body []byte) string {
	found := levels(body, true)
	for _, m := range found {
		for _, name := range taskIDNames {
			if id := identifier(m[name]); id != "" {
				return id
			}
		}
	}
	if said, _ := ParseErrorBody(body); Meaningful(said.Code) != "" {
		return "" // other IDs in an error need not be a task's
	}
	for _, m := range found {
		if id := text(m["id"]); id != "" && !isCallID(id, resp, body) { // an integer may be a database key
			return id
		}
	}
	if slices.ContainsFunc(found, fields.isError) {
		return ""
	}
	for _, m := range found {
		if id := cmp.Or(m.inAcceptance("uuid"), m.inAcceptance("requestid")); id != "" {
			return id
		}
	}
	return ""
}

// inAcceptance returns an ID that can only identify the task: xAI and fal answer with a request_id
// and little else. Next to a code or a mere message, it identifies the call.
func (f fields) inAcceptance(name string) string {
	status := firstText(f, statusNames)
	silent := firstText(f, []string{"message", "msg", "detail"}) == ""
	if f.isEnvelope() || !silent && (status == "" || ProgressionOf(status) == Failed) {
		return ""
	}
	return identifier(f[name])
}

// isError reports whether an object has an error.
func (f fields) isError() bool {
	return saysWhy(f["error"]) != (Problem{}) || saysWhy(f["errors"]) != (Problem{})
}

// isEnvelope reports whether an object is an envelope, whose status and request_id are about the
// call.
func (f fields) isEnvelope() bool {
	return slices.ContainsFunc(envelopeNames, func(name string) bool { return f[name] != nil })
}

// isCallID reports whether an ID appears to identify the call and not the task.
func isCallID(id string, resp *http.Response, body []byte) bool {
	return id == RequestID(resp.Header) || strings.HasPrefix(strings.ToLower(id), "req") || id == identifier(membersOf(body)["requestid"])
}

// identifier returns the value of a string or of an integer, or "".
func identifier(v jsontext.Value) string {
	var id lax.Word
	if len(v) == 0 || json.Unmarshal(v, &id, lax.Options) != nil {
		return ""
	}
	return lax.First(id)
}

func firstText(m fields, names []string) string {
	for _, name := range names {
		if s := text(m[name]); s != "" {
			return s
		}
	}
	return ""
}

// searchState finds the state of a task in an answer that reports no error. It looks into no lists,
// because their items may be other tasks.
func searchState(resp *http.Response, body []byte) (VideoState, bool) {
	if said, _ := ParseErrorBody(body); Meaningful(said.Code) != "" {
		return VideoState{}, false
	}
	word := searchStatus(body)
	if word == "" {
		return VideoState{}, false
	}
	state, _ := StateOf(lax.Status{Word: word, Set: true}, lax.Percent{})
	if state.Progression == Failed {
		why, _ := searchReason(body)
		state.Err = why.Failure(word, why.Code, lax.First(string(why.Message), "the upstream gave no reason"))
		state.Err.HTTPStatus, state.Err.RequestID = resp.StatusCode, RequestID(resp.Header)
	}
	return state, true
}

// searchStatus finds the status nearest to the top, or returns "". An envelope's status counts only
// if there is no other.
func searchStatus(body []byte) (status string) {
	for _, m := range levels(body, false) {
		word := firstText(m, statusNames)
		if word != "" && !m.isEnvelope() {
			return word
		}
		status = cmp.Or(status, word)
	}
	return status
}

// FindResults returns the results in an answer, from the first place that has any, or nil.
func FindResults(answer []byte) []VideoFile {
	return UsableClips(findClips(answer, maxSearchDepth))
}

func findClips(v jsontext.Value, depth int) []Clip {
	if depth < 0 {
		return nil
	}
	switch v.Kind() {
	case '"':
		if s := text(v); IsResultURL(s) {
			return []Clip{{URL: lax.Text(s)}}
		}
	case '[':
		return clipsOf(v, depth-1)
	case '{':
		m := membersOf(v)
		for _, name := range resultNames {
			clips := findClips(m[name], depth-1)
			if len(clips) == 1 && m[name].Kind() == '"' { // the object describes this result
				address := clips[0].URL
				_ = json.Unmarshal(v, &clips[0], lax.Options) // it is a JSON object
				clips[0].URL = address
			}
			if clips != nil {
				return clips
			}
		}
	}
	return nil
}

// clipsOf returns the results in a list, at most lax.MaxItems.
func clipsOf(list jsontext.Value, depth int) (clips []Clip) {
	var items lax.List[jsontext.Value]
	if json.Unmarshal(list, &items, lax.Options) != nil {
		return nil
	}
	for _, item := range items {
		clips = append(clips, findClips(item, depth)...)
	}
	return clips[:min(len(clips), lax.MaxItems)]
}
