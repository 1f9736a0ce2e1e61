package videos

import (
	"cmp"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// state gives what the answer says about the task. It is false when the answer
// has no status at all, and so says nothing. The status alone decides: gateways
// set completed_at and a URL while a task is running, and an error object does
// not fail it.
func (a *answer) state(resp *http.Response) (upstream.VideoState, bool) {
	v := a.current()
	if !v.Status.Set {
		return upstream.VideoState{Progress: -1}, false
	}
	state := upstream.VideoState{
		Progression: upstream.ProgressionOf(v.Status.Word),
		Status:      upstream.CutWord(v.Status.Word),
		Progress:    -1,
		Metadata:    v.Metadata,
		Usage:       v.Usage,
	}
	if v.Progress.Set {
		state.Progress = v.Progress.Value
	}
	switch state.Progression {
	case upstream.Completed:
		state.Videos = a.files()
	case upstream.Failed:
		state.Err = v.failure()
		state.Err.HTTPStatus = resp.StatusCode
		state.Err.RequestID = upstream.RequestID(resp.Header)
	default: // still running: nothing more is said
	}
	return state, true
}

// passing are the codes of failures that say nothing about the request: another
// submission of it may succeed.
var passing = map[lax.Word]bool{"server_error": true, "rate_limit_exceeded": true}

// failure gives why the task failed.
func (v *video) failure() *upstream.Error {
	status := upstream.NormaliseStatus(v.Status.Word)
	message := lax.First(v.Error.Message, v.FailReason, v.Message, "the upstream gave no reason")
	code := cmp.Or(v.Error.Code, lax.Word(upstream.Meaningful(string(v.Code))))
	if code == "" && upstream.Unjudged(status) {
		code = lax.Word(status)
	}
	return &upstream.Error{
		Op: upstream.OpPoll, Code: upstream.CutWord(string(code)), Type: upstream.CutWord(string(v.Error.Type)),
		Param: upstream.CutWord(string(v.Error.Param)), Message: upstream.CutMessage(message),
		RetryAfter: v.Error.Headers.Value.wait(),
		Said:       true, Written: true, Final: !upstream.Unjudged(status) && !passing[code],
	}
}

// wait is what the headers ask for, or 0.
func (r retryHeaders) wait() time.Duration {
	h := http.Header{}
	h.Set("Retry-After", string(r.RetryAfter))
	h.Set("Retry-After-Ms", string(r.RetryAfterMS))
	return upstream.RetryAfter(h)
}
