package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// PollCall describes how a protocol polls a task.
type PollCall struct {
	// Path is the escaped path below the base URL, including the query.
	Path string
	// Body is sent with POST. If it is nil, the poll is a GET.
	Body []byte
	// Read reads an answer with any status. It returns false or an error if the answer does not
	// contain the task's state. The result must not alias body, whose memory is reused.
	Read func(resp *http.Response, body []byte) (VideoState, bool, error)
	// ContentByID is true if the content is read by the task's ID, so that a success needs no URL.
	ContentByID bool
}

// pollBodies holds reusable buffers (*[]byte) for poll answers, because there may be thousands of
// polls per second.
var pollBodies = sync.Pool{New: func() any { return new([]byte) }}

// Poll reads the state of a task. A state of this task decides, whatever the HTTP status. Otherwise
// a terminal error decides, unless the status is about the key or the upstream (401, 402, 403, 429
// and 5xx). Any other answer is an error, and does not fail the task. This includes "no such task"
// (Error.Missing), because servers may answer a create before they store the task. The caller
// continues to poll.
func (ep *Endpoint) Poll(ctx context.Context, ref TaskRef, call PollCall) (VideoState, error) {
	if ref.ID == "" {
		return VideoState{}, NotSent(OpPoll, errors.New("the task id is empty"))
	}
	method := http.MethodGet
	if call.Body != nil {
		method = http.MethodPost
	}
	buf := pollBodies.Get().(*[]byte)
	resp, body, err := ep.Call(ctx, OpPoll, method, call.Path, call.Body, (*buf)[:0])
	defer release(buf, body)
	if resp == nil {
		return VideoState{}, err
	}
	state, ok, unread := call.read(resp, body)
	if ok && unread == nil && (state.Named || state.decides(callStatus(resp, body))) {
		for i := range state.Videos {
			state.Videos[i].URL = ep.reachable(state.Videos[i].URL)
		}
		ep.hide(state.Err)
		return state, nil
	}
	e := AsError(OpPoll, err)
	if e == nil {
		e, _ = ep.ResponseError(OpPoll, resp, body)
	}
	if status, final := e.taskEnd(body); status != "" {
		e.Final = final
		return VideoState{Progression: Failed, Status: status, Progress: -1, Err: e}, nil
	}
	missing := e.taskMissing()
	if err == nil {
		e = ep.Useless(OpPoll, "the answer says nothing about the task", resp, body, unread)
	}
	e.Missing = missing
	return VideoState{}, e
}

// callStatus returns the HTTP status of a call. Some servers put it into the code of a 2xx answer.
func callStatus(resp *http.Response, body []byte) int {
	return (&Error{HTTPStatus: resp.StatusCode, Code: word(membersOf(body)["code"])}).status()
}

// decides reports whether a state that may not be that of the task decides in an answer with a
// status. Outside 2xx, a status word may belong to an error, such as {"status":"error"}. So it counts
// only if the word has no other meaning and the status does not concern the key or the upstream.
func (s *VideoState) decides(status int) bool {
	if status/100 == 2 {
		return true
	}
	if !NamesEnd(status) || status == http.StatusNotFound || status == http.StatusGone {
		return false
	}
	switch NormaliseStatus(s.Status) {
	case "failed", "expired", "cancelled", "canceled":
		return true
	default:
		return s.Progression == Queued || s.Progression == InProgress
	}
}

func release(buf *[]byte, body []byte) {
	const keep = 256 << 10 // larger answers are rare and not worth keeping
	if cap(body) <= keep {
		*buf = body[:0]
		pollBodies.Put(buf)
	}
}
