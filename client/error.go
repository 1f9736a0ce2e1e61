package client

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Code is the meaning of an error. Codes never change; docs/errors.md lists them. A Code is itself
// an error, for errors.Is.
type Code string //nolint:errname // a word that also serves as an error

// Error returns the code.
func (c Code) Error() string { return string(c) }

// Retry reports whether the same request may succeed later. It is false for codes that this version
// does not know.
func (c Code) Retry() bool { return errcode.MeaningOf(errcode.Code(c)).Retry }

// Error is the reason why a request was refused or a job has no result.
type Error struct {
	// Code is the meaning. It is never empty.
	Code Code
	// Message says what happened, to which job, and what to do, for people.
	Message string
	// JobID names the job that failed; empty if unknown or not about a job.
	JobID string
	// RequestID is the ID under which the request was sent. It is set if the request may have been
	// accepted; retrying with it cannot create a second job.
	RequestID string
	// Retry reports whether the request may succeed later: the same request after RetryAfter if it
	// was refused, a new job if its job failed.
	Retry bool
	// RetryAfter is how long to wait before a retry, at most 24 h; 0 if unknown.
	RetryAfter time.Duration
	// Param is the request field that is wrong; empty if the error is not about a field.
	Param string
	// UpstreamCode and UpstreamHTTPStatus come from the upstream's answer; empty and 0 without one.
	UpstreamCode       string
	UpstreamHTTPStatus int
	// Err is the cause, or nil.
	Err error
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is reports whether target is the error's Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorOf returns the error in a job's terminal event as an *Error; nil if e is nil.
func ErrorOf(e *genbusv1.TaskError, jobID string) error {
	if e == nil {
		return nil
	}
	return errorOf(e, jobID)
}

func errorOf(e *genbusv1.TaskError, jobID string) *Error {
	return &Error{
		Code: Code(e.GetCode()), Message: e.GetMessage(), JobID: jobID, Retry: e.GetRetryable(), Param: e.GetParam(),
		RetryAfter:   seconds(e.GetRetryAfterSeconds()),
		UpstreamCode: e.GetUpstreamCode(), UpstreamHTTPStatus: int(e.GetUpstreamHttpStatus()),
	}
}

// maxRetryAfter bounds the advice to wait.
const maxRetryAfter = 24 * time.Hour

func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(math.Min(s, maxRetryAfter.Seconds()) * float64(time.Second))
}

// refusal returns the error that a reply carries, or nil.
func refusal(m *nats.Msg) *Error {
	code := m.Header.Get(subject.HeaderErrorCode)
	if code == "" {
		return nil
	}
	e := &genbusv1.TaskError{}
	if err := proto.Unmarshal(m.Data, e); err != nil || e.GetCode() == "" {
		e = &genbusv1.TaskError{Code: code, Message: m.Header.Get("Nats-Service-Error"), Retryable: Code(code).Retry()}
	}
	out := errorOf(e, m.Header.Get(subject.HeaderJobID))
	if after, err := strconv.ParseFloat(m.Header.Get(subject.HeaderRetryAfter), 64); err == nil && out.RetryAfter == 0 {
		out.RetryAfter = seconds(after)
	}
	return out
}

// again reports whether the client retries a refused request on its own: another replica, or the
// same one a moment later, may accept it.
func again(e *Error) bool {
	return e.Code == ErrShuttingDown || e.Code == ErrBrokerUnavailable || e.Code == ErrClockWrong
}

// refusedSince returns the permission error of the connection that names one of the streams or
// buckets, or nil. before is the last error at the start of the operation: a connection keeps its
// last error forever, so that one proves nothing.
func (c *Client) refusedSince(before error, names ...string) error {
	now := c.nc.LastError()
	about := func(name string) bool { return strings.Contains(now.Error(), name) }
	if !errors.Is(now, nats.ErrPermissionViolation) || errors.Is(before, now) || !slices.ContainsFunc(names, about) {
		return nil
	}
	return now
}

// lost returns a suffix for messages if the connection's last error, a permission or authorization
// error, may explain the missing answer; otherwise an empty string.
func lost(nc *nats.Conn) string {
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) {
		return "; the connection's last error: " + err.Error()
	}
	return ""
}
