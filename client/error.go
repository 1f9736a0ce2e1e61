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

// Code is the meaning of an error, a word that never changes (docs/errors.md). It is
// an error itself, for errors.Is.
type Code string //nolint:errname // it is a word, which happens to be an error

// Error is the code.
func (c Code) Error() string { return string(c) }

// Retry reports whether the same request may succeed later. Codes that this version
// does not know may not.
func (c Code) Retry() bool { return errcode.MeaningOf(errcode.Code(c)).Retry }

// Error is why a request was refused, or why a job has no result.
type Error struct {
	// Code is the meaning. Never empty.
	Code Code
	// Message says what happened, to which job, and what to do; for people.
	Message string
	// JobID is the job that the error is about; empty for none, or when it is not known.
	JobID string
	// RequestID is the id under which the request was sent; set when it is not known
	// whether it was accepted. Sent again with it, it is the same job.
	RequestID string
	// Retry is true when the same request may succeed: a refused one after RetryAfter,
	// that of a job that failed as a new job.
	Retry bool
	// RetryAfter is how long to wait before; 0 when nothing is known.
	RetryAfter time.Duration
	// Param is the field of the request that is wrong; empty when the error is about
	// none.
	Param string
	// UpstreamCode and UpstreamHTTPStatus are what the upstream said; empty and 0 when
	// it said nothing.
	UpstreamCode       string
	UpstreamHTTPStatus int
	// Err is the cause, or nil.
	Err error
}

// Error gives the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Is compares with a Code.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == e.Code
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrorOf is the error that a job ended with, as events hold it; nil for none.
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

// maxRetryAfter is what an advice to wait is cut to.
const maxRetryAfter = 24 * time.Hour

func seconds(s float64) time.Duration {
	if !(s > 0) {
		return 0
	}
	return time.Duration(math.Min(s, maxRetryAfter.Seconds()) * float64(time.Second))
}

// refusal reads an answer that is an error; nil for one that is none.
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

// again reports whether a refused request is sent again without asking the caller:
// another replica, or the same in a moment, takes it.
func again(e *Error) bool {
	return e.Code == ErrShuttingDown || e.Code == ErrBrokerUnavailable || e.Code == ErrClockWrong
}

// refusedSince is what the server has refused to this user of streams or buckets since
// before was the connection's last error; nil for nothing. The last error stays for good,
// and a refusal of something else says nothing of these.
func (c *Client) refusedSince(before error, names ...string) error {
	now := c.nc.LastError()
	about := func(name string) bool { return strings.Contains(now.Error(), name) }
	if !errors.Is(now, nats.ErrPermissionViolation) || errors.Is(before, now) || !slices.ContainsFunc(names, about) {
		return nil
	}
	return now
}

// lost is the last error of a connection that explains why there is no answer, in words;
// empty for none.
func lost(nc *nats.Conn) string {
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization) {
		return "; the connection's last error: " + err.Error()
	}
	return ""
}
