package upstream

import (
	"cmp"
	"context"
	"errors"
	"net/http"
)

// Values of Error.Op in errors from video clients.
const (
	OpCreate = "create"
	OpPoll   = "poll"
)

// MaxTaskID is the maximum length in bytes of an upstream's task ID. Longer values are not accepted
// as IDs.
const MaxTaskID = 1 << 10

// SubmitCall describes how a protocol submits a job.
type SubmitCall struct {
	// Path is the escaped path below the base URL, including the query.
	Path string
	// Body is the request's body and ContentType its media type. An empty ContentType means JSON.
	Body        []byte
	ContentType string
	// Outcomes judges every answer other than an acceptance.
	Outcomes Outcomes
	// Read reads a 2xx answer. If it returns an error, Outcomes judges the answer, because some
	// servers refuse with status 200. If it returns no ID, Submit looks for one elsewhere in the
	// answer before Outcomes judges it.
	Read func(resp *http.Response, body []byte) (Submission, *Error)
}

// Submit sends a create request once, with the job's ID as Idempotency-Key, and judges the answer.
// It never retries or follows a redirect. It does not start sending after the deadline of ctx, but
// it waits a little longer for the answer to a request that was sent in time.
func (ep *Endpoint) Submit(ctx context.Context, create VideoCreate, call SubmitCall) Submission {
	s := ep.submit(ctx, create, call)
	ep.hide(s.Err)
	ep.hide(s.State.Err)
	// HTTP/2 reports the end of the wait as a cancellation, but the caller did not cancel.
	if s.Err != nil && errors.Is(s.Err.Err, context.Canceled) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.Err.Err = context.DeadlineExceeded
	}
	return s
}

func (ep *Endpoint) submit(ctx context.Context, create VideoCreate, call SubmitCall) Submission {
	if len(call.Body) == 0 {
		return refused(RefusedForGood, NotSent(OpCreate, errors.New("the request body is empty")))
	}
	if !ep.ReuseConnections {
		ctx = withFreshConn(ctx)
	}
	req, err := ep.NewRequest(ctx, http.MethodPost, call.Path, call.Body)
	if err != nil {
		return refused(RefusedForGood, NotSent(OpCreate, err))
	}
	if call.ContentType != "" {
		req.Header.Set("Content-Type", call.ContentType)
	}
	req.Header.Set("Accept", "application/json")
	if create.JobID != "" {
		req.Header.Set("Idempotency-Key", create.JobID)
	}
	waiting, end := awaitAnswer(req.Context(), req.Body)
	defer end()
	req = req.WithContext(waiting)
	resp, err := ep.Do(OpCreate, req)
	if err != nil {
		e := AsError(OpCreate, err)
		return refused(unanswered(e), e)
	}
	return ep.judge(resp, create.Resubmission, call)
}

func (ep *Endpoint) judge(resp *http.Response, again bool, call SubmitCall) Submission {
	body, err := ep.AppendBody(OpCreate, resp, nil)
	if err != nil {
		e := AsError(OpCreate, err)
		return refused(call.Outcomes.Judge(e, again), e)
	}
	if resp.StatusCode/100 != 2 {
		e, _ := ep.ResponseError(OpCreate, resp, body)
		return refused(call.Outcomes.Judge(e, again), e)
	}
	sub, e := call.Read(resp, body)
	if e == nil && (sub.UpstreamID == "" || isCallID(sub.UpstreamID, resp, body)) {
		sub.UpstreamID = cmp.Or(searchTaskID(resp, body), sub.UpstreamID)
	}
	if e == nil && (sub.UpstreamID == "" || len(sub.UpstreamID) > MaxTaskID) {
		e = ep.Useless(OpCreate, "the upstream answered without a task id", resp, body, nil)
	}
	if e != nil {
		return refused(call.Outcomes.Judge(e, again), e)
	}
	sub.Verdict = Accepted
	return sub
}

func refused(v Verdict, e *Error) Submission { return Submission{Verdict: v, Err: e} }

// Useless returns the error for a 2xx answer that lacks the required content.
func (ep *Endpoint) Useless(op, what string, resp *http.Response, body []byte, cause error) *Error {
	e, _ := ep.ResponseError(op, resp, body)
	e.Code = Meaningful(e.Code)
	e.Message = CutMessage(what + ": " + e.Message)
	e.Err = cause
	return e
}

// Call sends a request that submits no job, such as a poll, and appends the answer's body to dst. An
// answer other than 2xx is also an *Error. Without a whole answer, the response is nil. Call may send
// the request twice. The returned body may share dst's memory, even if there is an error.
func (ep *Endpoint) Call(ctx context.Context, op, method, path string, body, dst []byte) (*http.Response, []byte, error) {
	resp, err := ep.DoRepeatable(ctx, op, nil, func(ctx context.Context) (*http.Request, error) {
		req, err := ep.NewRequest(ctx, method, path, body)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		return req, nil
	})
	if err != nil {
		return nil, dst, aboutUpstream(op, err)
	}
	answer, err := ep.AppendBody(op, resp, dst)
	if err != nil {
		return nil, answer, aboutUpstream(op, err)
	}
	if resp.StatusCode/100 != 2 {
		e, _ := ep.ResponseError(op, resp, answer)
		e.Scope = callScope(resp.StatusCode)
		return resp, answer, e
	}
	return resp, answer, nil
}

func aboutUpstream(op string, err error) *Error {
	e := AsError(op, err)
	if !e.Final { // a final error means that the request could not be built
		e.Scope = ScopeUpstream
	}
	return e
}

// callScope derives the scope of a refused call from its status alone, because no client's request
// is involved.
func callScope(status int) Scope {
	switch {
	case status >= 401 && status <= 403, status == http.StatusTooManyRequests:
		return ScopeKey
	case status >= 500:
		return ScopeUpstream
	default:
		return ScopeRequest
	}
}
