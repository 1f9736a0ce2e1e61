package upstream

import (
	"context"
	"errors"
	"net/http"
	"sync"
)

// PollCall is how one protocol asks for a task.
type PollCall struct {
	// Path is the escaped path below the base URL, with its query.
	Path string
	// Read reads a 2xx answer. It is false, or an error, when the answer says
	// nothing about the task. Nothing that it returns may point into body, whose
	// memory is used again.
	Read func(resp *http.Response, body []byte) (VideoState, bool, error)
}

// pollBodies keeps the memory of poll answers (*[]byte); polls come by the
// thousand per second.
var pollBodies = sync.Pool{New: func() any { return new([]byte) }}

// Poll reads the state of a task with a GET. Only a readable 2xx answer says
// anything about the task. Every other one is an error and never a failed task,
// also "no such task": servers answer a create before they store the task, so a
// poller goes on and lets the task's deadline decide.
func (ep *Endpoint) Poll(ctx context.Context, ref TaskRef, call PollCall) (VideoState, error) {
	if ref.ID == "" {
		return VideoState{}, NotSent(OpPoll, errors.New("the task id is empty"))
	}
	buf := pollBodies.Get().(*[]byte)
	resp, body, err := ep.Call(ctx, OpPoll, http.MethodGet, call.Path, nil, (*buf)[:0])
	defer release(buf, body)
	if err != nil {
		return VideoState{}, err
	}
	state, ok, err := call.Read(resp, body)
	if err != nil || !ok {
		return VideoState{}, ep.Useless(OpPoll, "the answer says nothing about the task", resp, body, err)
	}
	for i := range state.Videos {
		state.Videos[i].URL = ep.reachable(state.Videos[i].URL)
	}
	return state, nil
}

func release(buf *[]byte, body []byte) {
	const keep = 256 << 10 // larger answers are rare; do not hoard them
	if cap(body) <= keep {
		*buf = body[:0]
		pollBodies.Put(buf)
	}
}
