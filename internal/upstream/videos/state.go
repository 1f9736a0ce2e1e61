package videos

import (
	"cmp"
	"net/http"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// state returns the task's state, or false if the answer has no status. Only the status decides:
// gateways set completed_at and a URL while a task is running, and an error object does not fail
// it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	v := a.current()
	state, ok := upstream.StateOf(v.Status, v.Progress)
	if !ok {
		return state, false
	}
	state.Metadata, state.Usage = v.Metadata, v.Usage
	state.Size, state.Seconds = v.Dimensions()
	if v.Size != "" {
		state.Size = upstream.CutWord(string(v.Size))
	}
	switch state.Progression {
	case upstream.Completed:
		state.Videos = a.files()
	case upstream.Failed:
		state.Err = v.failure()
		state.Err.HTTPStatus = resp.StatusCode
		state.Err.RequestID = upstream.RequestID(resp.Header)
	default: // still running: no results or error
	}
	return state, true
}

// passing lists the codes of failures that are not about the request, so that another submission
// may succeed.
var passing = map[lax.Word]bool{"server_error": true, "rate_limit_exceeded": true}

func (v *video) failure() *upstream.Error {
	code := cmp.Or(v.Error.Code, lax.Word(upstream.Meaningful(string(v.Code))))
	e := v.Error.Failure(v.Status.Word, code, lax.First(v.Error.Message, upstream.FailureText(v.FailReason), upstream.FailureText(v.Message), "the upstream gave no reason"))
	e.Final = e.Final && !passing[code]
	return e
}
