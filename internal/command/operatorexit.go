package command

import (
	"errors"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/internal/errcode"
)

// Exit codes of the commands that call a running genbus.
const (
	ExitFailed      = 1 // any other failure
	ExitUsage       = 2 // wrong command line or request, TLS flags included
	ExitNotFound    = 3 // no such dead letter, job or route
	ExitDenied      = 4 // the key is missing, unknown, or not an operator key
	ExitNotPossible = 5 // not possible for this dead letter or in this state
	ExitUnavailable = 6 // no answer, or temporarily refused: try again
)

// callError is the error of a gRPC call, with its genbus code.
type callError struct {
	code string // as in docs/errors.md; empty for connection errors
	s    *status.Status
}

func (e callError) Error() string {
	if e.code == "" {
		return clean(e.s.Message())
	}
	return e.code + ": " + clean(e.s.Message())
}

// lost reports whether the answer may have been lost.
func (e callError) lost() bool {
	switch e.s.Code() {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal:
		return e.code == ""
	default:
		return false
	}
}

// exitError is an error with a known exit code.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// answered converts the error of a gRPC call to a callError. It returns other errors unchanged.
func answered(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	e := callError{s: s}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			e.code = info.GetReason()
		}
	}
	if e.code == "" && s.Code() == codes.ResourceExhausted && strings.Contains(s.Message(), "message larger than max") {
		e.code = string(errcode.BodyTooLarge) // gRPC refused it before genbus could
	}
	return e
}

// ExitCode returns the exit code of the process for an error.
func ExitCode(err error) int {
	var e callError
	var known exitError
	var ofJob *client.Error
	switch {
	case IsUsage(err):
		return ExitUsage
	case errors.As(err, &known):
		return known.code
	case errors.As(err, &ofJob):
		return exitOf(errcode.Code(ofJob.Code), codes.Code(errcode.MeaningOf(errcode.Code(ofJob.Code)).GRPC))
	case !errors.As(err, &e):
		return ExitFailed
	}
	return exitOf(errcode.Code(e.code), e.s.Code())
}

// exitOf returns the exit code for an error returned by genbus. For limits and deadlines, gRPC has
// one code each, whether the condition is permanent or temporary. The genbus code why distinguishes
// the two cases.
func exitOf(why errcode.Code, c codes.Code) int {
	m := errcode.MeaningOf(why)
	final := m.Code == why && !m.Retry // an unknown code gets another code's meaning
	switch c {
	case codes.InvalidArgument:
		return ExitUsage
	case codes.NotFound:
		return ExitNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return ExitDenied
	case codes.FailedPrecondition, codes.Aborted, codes.DataLoss:
		return ExitNotPossible
	case codes.ResourceExhausted:
		if final {
			return ExitUsage
		}
		return ExitUnavailable
	case codes.DeadlineExceeded:
		if final {
			return ExitFailed
		}
		return ExitUnavailable
	case codes.Unavailable:
		return ExitUnavailable
	default:
		return ExitFailed
	}
}
