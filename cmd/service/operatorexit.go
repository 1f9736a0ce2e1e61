package main

import (
	"errors"

	"github.com/nats-io/nats.go"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Exit codes of the commands that call a running genbus.
const (
	exitFailed      = 1 // whatever has no code of its own
	exitUsage       = 2 // the command line or the request is wrong, TLS included
	exitNotFound    = 3 // there is no such letter, job or route
	exitDenied      = 4 // the key is missing, unknown, or no operator's
	exitNotPossible = 5 // not with this letter, or not in this state
	exitUnavailable = 6 // nobody answered, or not now: try again
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
	return e
}

// exitCode is the process's answer to an error.
func exitCode(err error) int {
	var e callError
	switch {
	case isUsage(err):
		return exitUsage
	case errors.Is(err, nats.ErrNoServers):
		return exitUnavailable
	case errors.Is(err, nats.ErrAuthorization):
		return exitDenied
	case !errors.As(err, &e):
		return exitFailed
	}
	switch e.s.Code() {
	case codes.InvalidArgument:
		return exitUsage
	case codes.NotFound:
		return exitNotFound
	case codes.Unauthenticated, codes.PermissionDenied:
		return exitDenied
	case codes.FailedPrecondition, codes.Aborted, codes.DataLoss:
		return exitNotPossible
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		return exitUnavailable
	default:
		return exitFailed
	}
}
