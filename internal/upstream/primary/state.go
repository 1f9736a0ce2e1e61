package primary

import (
	"cmp"
	"net/http"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// state returns the task's state, or false if the answer has no status. Only the status decides: a
// result URL does not complete a task, and an error object does not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	t := a.current()
	state, ok := upstream.StateOf(t.Status, t.Progress)
	if !ok {
		return state, false
	}
	state.Metadata, state.Usage = t.Metadata, t.Usage
	state.Size, state.Seconds = t.Dimensions()
	switch state.Progression {
	case upstream.Completed:
		state.Videos = a.videos()
	case upstream.Failed:
		state.Err = a.failure(t)
		state.Err.HTTPStatus = resp.StatusCode
		state.Err.RequestID = upstream.RequestID(resp.Header)
	default: // still running: no results or error
	}
	return state, true
}

// failure returns the error of a failed task, with the reason from the most specific place that has
// one. An error object with code 0 and no message has no reason.
func (a *answer) failure(t *task) *upstream.Error {
	v := a.Data.Value.Data.Value
	inner := v.Data.Value
	message := lax.First(
		t.Error.Message, upstream.FailureText(t.FailReason), upstream.FailureText(t.ResultURL), upstream.FailureText(t.Message),
		v.Error.Message, v.StatusText, inner.StatusText, upstream.FailureText(v.Message),
		"the upstream gave no reason",
	)
	code := cmp.Or(t.Error.Code, lax.Word(upstream.Meaningful(string(t.Code))), v.Error.Code, lax.Word(upstream.Meaningful(string(v.Code))))
	return t.Error.Failure(t.Status.Word, code, message)
}
