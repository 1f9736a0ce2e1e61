package jimeng

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// urlLifetime is how long the vendor serves a result.
const urlLifetime = time.Hour

// failures holds the codes in answers to a query that report a failed task. The value is true if
// the same request would fail again. Other codes concern the query itself.
var failures = map[string]bool{
	// Refused input.
	"50411": true, "50412": true, "50413": true, "50513": true, "50514": true, "50518": true,
	// Refused output text, or a failure of the review itself. The vendor advises against a retry.
	"50512": true, "50520": true, "50521": true, "50522": true,
	// Other refused output. The output of another attempt may pass.
	"50511": false, "50516": false, "50517": false, "50519": false,
}

// aboutTheCall lists the codes for limits and missing permissions. They never concern a task,
// whatever else the answer contains.
var aboutTheCall = map[string]bool{"50429": true, "50430": true, "50400": true}

// state returns the task's state from the answer to a query, or false if it has none. The code is
// checked first, because the vendor's data is null or incomplete if the code is not 10000.
func (c *client) state(a *answer, resp *http.Response, id string) (upstream.VideoState, bool) {
	var state upstream.VideoState
	switch code := string(a.Code); {
	case code == codeOK && a.Data.Value.Status.Set:
		state = c.progress(a)
	case code == "success" && a.Data.Value.Status.Set:
		state = c.gatewayProgress(a)
	case upstream.NamesEnd(resp.StatusCode) && a.failed(resp.StatusCode, id):
		state = a.failure()
	default:
		return upstream.VideoState{}, false
	}
	if state.Err != nil {
		state.Err.HTTPStatus = resp.StatusCode
		state.Err.RequestID = cmp.Or(upstream.RequestID(resp.Header), upstream.CutWord(string(a.RequestID)))
	}
	return state, true
}

// failed reports whether an answer with a code other than 10000 reports a failed task. It does if
// the code is listed in failures, if the status in its data is done, or if it is an HTTP 400 that
// names the task. Only the vendor's codes are numbers; gateways send words.
func (a *answer) failed(status int, id string) bool {
	code := upstream.Meaningful(string(a.Code))
	if _, err := strconv.ParseUint(code, 10, 32); err != nil || aboutTheCall[code] {
		return false
	}
	_, listed := failures[code]
	done := upstream.NormaliseStatus(a.Data.Value.Status.Word) == "done"
	return listed || done || (status == http.StatusBadRequest && string(a.TaskID) == id)
}

func (a *answer) failure() upstream.VideoState {
	code := upstream.CutWord(string(a.Code))
	return failedState(a.Data.Value.Status.Word, &upstream.Error{
		Code:    code,
		Message: cmp.Or(string(a.Message), "the upstream gave no reason"),
		Final:   failures[code] || code == "50215", // the input is invalid for the model
	})
}

// progress reads the vendor's status word. Because not_found may also mean a new task, such a task
// counts as running until its deadline. An expired task has failed, but a new submission may
// succeed.
func (c *client) progress(a *answer) upstream.VideoState {
	word := a.Data.Value.Status.Word
	if upstream.NormaliseStatus(word) == "not_found" {
		return running(upstream.Running, word)
	}
	switch p := upstream.ProgressionOf(word); p {
	case upstream.Completed:
		return c.completed(word, string(a.Data.Value.VideoURL))
	case upstream.Failed:
		status := upstream.NormaliseStatus(word)
		return failedState(word, &upstream.Error{
			Code: upstream.CutWord(status), Message: "the upstream reports the task as " + status, Final: !upstream.Unjudged(status),
		})
	default:
		return running(p, word)
	}
}

func running(p upstream.Progression, word string) upstream.VideoState {
	return upstream.VideoState{Progression: p, Unknown: upstream.NoSuchTask(word), Status: upstream.CutWord(word), Progress: -1}
}

// completed uses the first candidate that is a result URL, if there is one.
func (c *client) completed(word string, candidates ...string) upstream.VideoState {
	s := running(upstream.Completed, word)
	for _, u := range candidates {
		if upstream.IsResultURL(u) {
			s.Videos = []upstream.VideoFile{{URL: u, ExpiresAt: c.now().Add(urlLifetime)}}
			return s
		}
	}
	return s
}

// failedState returns the state of a failed task and fills in the fields that all errors from a
// query share.
func failedState(word string, e *upstream.Error) upstream.VideoState {
	e.Op, e.Reported, e.Written = upstream.OpPoll, true, true
	e.Message = upstream.CutMessage(e.Message)
	s := running(upstream.Failed, word)
	s.Err = e
	return s
}
