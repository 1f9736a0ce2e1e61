package primary

import (
	"cmp"
	"net/http"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// state gives what the answer says about the task. It is false when the answer
// has no status at all, and so says nothing. The status alone decides; a result
// URL does not complete a task, and an error object does not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	t := a.current()
	if !t.Status.Set {
		return upstream.VideoState{Progress: -1}, false
	}
	state := upstream.VideoState{
		Progression: upstream.ProgressionOf(t.Status.Word),
		Status:      upstream.CutWord(t.Status.Word),
		Progress:    -1,
		Metadata:    t.Metadata,
		Usage:       t.Usage,
	}
	if t.Progress.Set {
		state.Progress = t.Progress.Value
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
	v := a.Data.Value.Data.Value
	inner := v.Data.Value
	status := upstream.NormaliseStatus(t.Status.Word)
	message := lax.First(
		t.Error.Message, t.FailReason, reasonIn(t.ResultURL), t.Message,
		v.Error.Message, v.StatusText, inner.StatusText, v.Message,
		"the upstream gave no reason",
	)
	code := cmp.Or(t.Error.Code, lax.Word(upstream.Meaningful(string(t.Code))), v.Error.Code, lax.Word(upstream.Meaningful(string(v.Code))))
	if code == "" && upstream.Unjudged(status) {
		code = lax.Word(status)
	}
	return &upstream.Error{
		Op: upstream.OpPoll, Code: upstream.CutWord(string(code)), Type: upstream.CutWord(string(t.Error.Type)),
		Param: upstream.CutWord(string(t.Error.Param)), Message: upstream.CutMessage(message),
		Said: true, Written: true, Final: !upstream.Unjudged(status),
	}
}

// reasonIn gives the failure text that some servers put into result_url.
func reasonIn(resultURL lax.Text) lax.Text {
	if upstream.IsResultURL(string(resultURL)) {
		return ""
	}
	return resultURL
}
