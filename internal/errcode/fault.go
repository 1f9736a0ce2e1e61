package errcode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Violation describes an invalid field of a request.
type Violation struct {
	// Field is the path of the field, such as "messages[3].role". It is empty for the whole body.
	Field string
	// Description states what is wrong and what would be right.
	Description string
}

// Error is an error with a code. It never contains a key or a request's body.
type Error struct {
	// Code classifies the error.
	Code Code
	// Message describes what happened, to which job, and what to do.
	Message string
	// JobID is the job that the error is about, or empty.
	JobID string
	// Violations lists the invalid fields of an InvalidRequest.
	Violations []Violation
	// RetryAfter is how long to wait before a retry, or 0 if unknown.
	RetryAfter time.Duration
	// HTTPStatus overrides the table's status if an upstream's refusal is passed on unchanged. It
	// is 0 otherwise.
	HTTPStatus int
	// Type overrides the table's type, like HTTPStatus.
	Type string
	// TimedOut is true if an upstream may have been working on the call when it timed out, so that a
	// retry may be charged too. SDKs are then told not to retry by themselves.
	TimedOut bool
	// UpstreamCode, UpstreamHTTPStatus and UpstreamRequestID come from the upstream's answer.
	UpstreamCode       string
	UpstreamHTTPStatus int
	UpstreamRequestID  string
	// Err is the cause, or nil.
	Err error
	// hidden is true if Message must not show Err. Only the log shows it then.
	hidden bool
}

// New returns an error with a code and a message. It unwraps to an error formatted with %w.
func New(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// Invalid returns an InvalidRequest that lists the invalid fields.
func Invalid(violations []Violation) *Error {
	e := &Error{Code: InvalidRequest, Violations: violations, Message: "the request is invalid"}
	if len(violations) > 0 {
		e.Message = violations[0].text()
	}
	switch n := len(violations) - 1; {
	case n == 1:
		e.Message += " (and 1 more mistake)"
	case n > 1:
		e.Message += fmt.Sprintf(" (and %d more mistakes)", n)
	}
	return e
}

// text returns the violation as a sentence, about the whole body if it has no field.
func (v Violation) text() string {
	if v.Field == "" {
		return "the body " + v.Description
	}
	return v.Field + ": " + v.Description
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Because returns a copy with err as its cause. Message does not show this cause, because it
// concerns only genbus itself. LogValue shows it in logs.
func (e *Error) Because(err error) *Error {
	c := *e
	c.Err, c.hidden = err, true
	return &c
}

// Hides reports whether the error has a cause that Message does not show.
func (e *Error) Hides() bool { return e.hidden }

// LogValue returns Error, with the hidden cause if there is one.
func (e *Error) LogValue() slog.Value {
	if e.hidden {
		return slog.StringValue(fmt.Sprintf("%s (%v)", e, e.Err))
	}
	return slog.StringValue(e.Error())
}

// Meaning returns the table's row for the error's code.
func (e *Error) Meaning() Meaning { return MeaningOf(e.Code) }

// Is makes errors.Is compare errors of this package by code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// ForJob returns a copy that names the job.
func (e *Error) ForJob(id string) *Error {
	c := *e
	c.JobID = id
	return &c
}

// WithRetryAfter returns a copy with a time to wait before a retry.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// NotAccepted returns the error for a request that was not stored because JetStream does not
// answer. reason describes the failure.
func NotAccepted(reason string, cause error) *Error {
	return New(BrokerUnavailable, "nothing was accepted: %s", reason).Because(cause).WithRetryAfter(time.Second)
}

// From returns err as an *Error. It returns the *Error in err's chain if there is one, CallerGone
// or UpstreamTimeout if a context ended, and otherwise Internal with the message on one line. It
// returns nil for nil.
func From(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return &Error{Code: CallerGone, Message: err.Error(), Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: UpstreamTimeout, Message: err.Error(), Err: err}
	default:
		return &Error{Code: Internal, Message: strings.ReplaceAll(err.Error(), "\n", "; "), Err: err}
	}
}

// CodeOf returns the code of From(err), and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}

// Disconnected reports whether the caller of ctx has disconnected, that is, whether ctx was
// cancelled without a cause.
func Disconnected(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }

// Counted returns the code under which metrics count err. If the caller has disconnected, a server
// error (5xx) counts as CallerGone, because that probably caused it.
func Counted(ctx context.Context, err error) Code {
	if err != nil && From(err).Meaning().HTTP >= http.StatusInternalServerError && Disconnected(ctx) {
		return CallerGone
	}
	return CodeOf(err)
}

// MaxMessage bounds messages that leave the process, in bytes.
const MaxMessage = 2 << 10

// TaskError returns the error as written in events, dead letters and answers.
func (e *Error) TaskError() *genbusv1.TaskError {
	m := e.Meaning()
	out := &genbusv1.TaskError{
		Code:               string(e.Code),
		Message:            Clip(e.Message, MaxMessage),
		Retryable:          m.Retry,
		UpstreamCode:       Clip(e.UpstreamCode, 128),
		UpstreamHttpStatus: clampStatus(e.UpstreamHTTPStatus),
		UpstreamRequestId:  Clip(e.UpstreamRequestID, 256),
		Type:               e.errorType(),
		RetryAfterSeconds:  e.RetryAfter.Seconds(),
	}
	if len(e.Violations) > 0 {
		out.Param = e.Violations[0].Field
	}
	return out
}

func (e *Error) errorType() string {
	if e.Type != "" {
		return e.Type
	}
	return e.Meaning().Type
}

func clampStatus(n int) int32 {
	if n < 0 || n > math.MaxInt16 {
		return 0
	}
	return int32(n)
}

// FromTaskError is the inverse of TaskError. It returns nil for nil.
func FromTaskError(t *genbusv1.TaskError) *Error {
	if t == nil {
		return nil
	}
	e := &Error{
		Code:               Code(t.GetCode()),
		Message:            t.GetMessage(),
		RetryAfter:         time.Duration(t.GetRetryAfterSeconds() * float64(time.Second)),
		Type:               t.GetType(),
		UpstreamCode:       t.GetUpstreamCode(),
		UpstreamHTTPStatus: int(t.GetUpstreamHttpStatus()),
		UpstreamRequestID:  t.GetUpstreamRequestId(),
	}
	if t.GetParam() != "" {
		e.Violations = []Violation{{Field: t.GetParam(), Description: t.GetMessage()}}
	}
	return e
}

// Clip makes s fit for a Protobuf string: valid UTF-8 of at most n bytes, cut at a rune boundary.
func Clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
