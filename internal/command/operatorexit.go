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
	ExitFailed      = 1 // whatever has no code of its own
	ExitUsage       = 2 // the command line or the request is wrong, TLS included
	ExitNotFound    = 3 // there is no such letter, job or route
	ExitDenied      = 4 // the key is missing, unknown, or no operator's
	ExitNotPossible = 5 // not with this letter, or not in this state
	ExitUnavailable = 6 // no answer, or not now: try again
)

// callError is an error that genbus answered, with its code.
type callError struct {
	code string // of docs/errors.md; empty for errors of the connection
	s    *status.Status
}

func (e callError) Error() string {
	if e.code == "" {
		return clean(e.s.Message())
	}
	return e.code + ": " + clean(e.s.Message())
}

// lost reports whether the error may stand for an answer that did not arrive.
func (e callError) lost() bool {
	switch e.s.Code() {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown, codes.Internal:
		return e.code == ""
	default:
		return false
	}
}

// exitError is an error whose exit code is known where it happens.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// answered gives an error of a call its code.
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

// ExitCode is the process's answer to an error.
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
		return exitOf(errcode.Code(ofJob.Code), errcode.MeaningOf(errcode.Code(ofJob.Code)).GRPC)
	case !errors.As(err, &e):
		return ExitFailed
	}
	return exitOf(errcode.Code(e.code), e.s.Code())
}

// exitOf is the exit code for an answer of genbus. gRPC has one code for a limit that will
// give way and for one that will not, and so for times: of those, why says which it is.
func exitOf(why errcode.Code, c codes.Code) int {
	m := errcode.MeaningOf(why)
	final := m.Code == why && !m.Retry // an unknown code has the meaning of another one
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
