package primary

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/genbus/genbus/internal/upstream"
)

// state gives what the answer says about the task. It is false when the answer
// has no status at all, and so says nothing. The status alone decides; a result
// URL does not complete a task, and an error object does not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	t := a.current()
	if !t.Status.set {
		return upstream.VideoState{Progress: -1}, false
	}
	state := upstream.VideoState{
		Progression: progression(t.Status.word),
		Status:      upstream.CutWord(t.Status.word),
		Progress:    -1,
		Metadata:    t.Metadata,
		Usage:       t.Usage,
	}
	if t.Progress.set {
		state.Progress = t.Progress.value
	}
	switch state.Progression {
	case upstream.Completed:
		state.Videos = a.videos()
	case upstream.Failed:
		state.Err = a.failure(t)
		state.Err.HTTPStatus = resp.StatusCode
		state.Err.RequestID = upstream.RequestID(resp.Header)
	default: // still running: nothing more is said
	}
	return state, true
}

// failure gives why the task failed, from the most specific place that says
// something. An error object with code 0 and no message says nothing.
func (a *answer) failure(t *task) *upstream.Error {
	v := a.Data.value.Data.value
	inner := v.Data.value
	status := normalise(t.Status.word)
	message := firstText(
		t.Error.Message, t.FailReason, reasonIn(t.ResultURL), t.Message,
		v.Error.Message, v.StatusText, inner.StatusText, v.Message,
		"the upstream gave no reason",
	)
	code := cmp.Or(t.Error.Code, meaningful(t.Code), v.Error.Code, meaningful(v.Code))
	if code == "" && unjudged[status] {
		code = word(status)
	}
	return &upstream.Error{
		Op: opPoll, Code: upstream.CutWord(string(code)), Type: upstream.CutWord(string(t.Error.Type)),
		Param: upstream.CutWord(string(t.Error.Param)), Message: upstream.CutMessage(message),
		Said: true, Written: true, Final: !unjudged[status],
	}
}

// reasonIn gives the failure text that some servers put into result_url.
func reasonIn(resultURL text) text {
	if validURL(string(resultURL)) {
		return ""
	}
	return resultURL
}

// meaningful drops the codes that say "this answer is fine".
func meaningful(code word) word {
	switch strings.ToLower(string(code)) {
	case "success", "ok", "200", "10000":
		return ""
	}
	return code
}

func firstText(candidates ...text) string {
	for _, c := range candidates {
		if s := strings.TrimSpace(string(c)); s != "" {
			return s
		}
	}
	return ""
}
