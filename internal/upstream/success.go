package upstream

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// read reads a task's state. In a 2xx answer, it finds the state wherever the server put it.
func (call PollCall) read(resp *http.Response, body []byte) (VideoState, bool, error) {
	state, ok, err := call.Read(resp, body)
	if err != nil {
		return state, false, err
	}
	if !ok && resp.StatusCode/100 == 2 {
		state, ok = searchState(resp, body)
	}
	if ok {
		state.Conclude(resp, body, call.ContentByID)
	}
	return state, ok, nil
}

// Conclude interprets a success without a result; other states stay unchanged. With byID, content
// is read by the task's ID, so the success is the result. But if the answer denies the result,
// Conclude turns the state into a failure. Without byID, Conclude looks for a result in places that
// the protocol does not know. If it finds none, it sets Err, and the caller polls again for a
// while.
func (s *VideoState) Conclude(resp *http.Response, body []byte, byID bool) {
	if s.Progression != Completed || len(s.Videos) > 0 {
		return
	}
	if !byID {
		s.Videos = FindResults(body)
	}
	why, denied := searchReason(body)
	if len(s.Videos) > 0 || byID && !denied {
		return
	}
	message := "the upstream reported success without a video"
	if why.Message != "" {
		message += ": " + string(why.Message)
	}
	s.Err = why.Failure(s.Status, why.Code, message)
	s.Err.Final, s.Err.HTTPStatus, s.Err.RequestID = denied, resp.StatusCode, RequestID(resp.Header)
	if byID {
		s.Progression = Failed
	}
}

var (
	// denialNames lists the members with which an answer denies a result.
	denialNames = []string{"error", "failreason", "failurereason", "errormessage", "errormsg", "blockreason", "moderationreason", "raimediafilteredreasons"}
	// verdictNames lists the members that deny a result with true, a list with true, or a number
	// above 0: Grok's "moderated", fal's "has_nsfw_concepts", Veo's "raiMediaFilteredCount".
	verdictNames = []string{"moderated", "blocked", "filtered", "flagged", "hasnsfwconcepts", "raimediafilteredcount"}
	// remarkNames lists the members that may explain a missing result. Some servers put the reason
	// where others put a URL.
	remarkNames = []string{"taskstatusmsg", "statusmessage", "statusmsg", "resulturl", "videourl", "url", "message", "msg"}
)

// searchReason returns why a task has no result, in the upstream's words. denied is true if the
// answer denies the result, and false if it only has a remark.
func searchReason(body []byte) (why Problem, denied bool) {
	found := levels(body, true)
	for _, m := range found {
		for _, name := range denialNames {
			if why = saysWhy(m[name]); why != (Problem{}) {
				return why, true
			}
		}
	}
	for _, m := range found {
		if withheld(m) || withheld(membersOf(m["moderation"])) {
			return Problem{Message: "its moderation withheld the video"}, true
		}
	}
	for _, m := range found {
		for _, name := range remarkNames {
			if s := FailureText(lax.Text(text(m[name]))); s != "" {
				return Problem{Message: s}, false
			}
		}
	}
	return Problem{}, false
}

// withheld reports whether one of an object's members says that moderation withheld the result.
func withheld(m fields) bool {
	if string(m["respectmoderation"]) == "false" { // xAI
		return true
	}
	for _, name := range verdictNames {
		v := m[name]
		if string(v) == "true" || v.Kind() == '0' && identifier(v) != "" || v.Kind() == '[' && strings.Contains(string(v), "true") {
			return true
		}
	}
	return false
}

// saysWhy reads a reason: a text, an error object, or the first item of a list of either. It
// returns the zero Problem for a text or a code that means success.
func saysWhy(v jsontext.Value) Problem {
	if v.Kind() == '[' {
		v = firstItem(v)
	}
	var p Problem
	if len(v) == 0 || json.Unmarshal(v, &p, lax.Options) != nil {
		return Problem{}
	}
	p.Code = lax.Word(Meaningful(string(p.Code)))
	p.Message = FailureText(p.Message)
	if p.Code == "" && p.Message == "" {
		return Problem{}
	}
	p.Message = cmp.Or(p.Message, lax.Text(p.Code))
	return p
}
