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
	// Read reads a 2xx answer. It returns false or an error if the answer does not contain the
	// task's state. The result must not alias body, whose memory is reused.
	Read func(resp *http.Response, body []byte) (VideoState, bool, error)
	// ContentByID is true if the content is read by the task's ID, so that a success needs no URL.
	ContentByID bool
}

// pollBodies holds reusable buffers (*[]byte) for poll answers, because there may be thousands of
// polls per second.
var pollBodies = sync.Pool{New: func() any { return new([]byte) }}

// Poll reads the state of a task with a GET. Only a readable 2xx answer reveals anything about the
// task. Any other answer is an error, but it does not fail the task. This includes "no such task",
// because servers may answer a create before they store the task. The caller continues to poll
// until the task's deadline.
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
	state, ok, err := call.read(resp, body)
	if err != nil || !ok {
		return VideoState{}, ep.Useless(OpPoll, "the answer says nothing about the task", resp, body, err)
	}
	for i := range state.Videos {
		state.Videos[i].URL = ep.reachable(state.Videos[i].URL)
	}
	return state, nil
}

func release(buf *[]byte, body []byte) {
	const keep = 256 << 10 // larger answers are rare and not worth keeping
	if cap(body) <= keep {
		*buf = body[:0]
		pollBodies.Put(buf)
	}
}
