package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// Explain converts an error about a job for its caller. The cause of an ended context takes
// precedence, because errors that result from it say less.
func Explain(ctx context.Context, n subject.JobName, err error) *errcode.Error {
	var f *errcode.Error
	switch {
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &f):
	case errors.As(err, &f):
	case errors.Is(err, joblog.ErrNotFound):
		return notFound(n)
	case errors.Is(err, chatlog.ErrToken):
		f = errcode.Invalid([]errcode.Violation{{Field: "resume_token", Description: "does not belong to this chat"}})
	case errors.Is(err, joblog.ErrSlowReader):
		f = errcode.New(errcode.SlowReader, "the reader of %s fell too far behind; resume from the last event", n.ID)
	case errors.Is(err, joblog.ErrUncertain):
		f = errcode.New(errcode.AcceptanceUnknown, "the change of %s may have been stored: %s", n.ID, broker.Reason(err)).Because(err)
	case errors.Is(err, joblog.ErrFull):
		f = errcode.New(errcode.StorageFull, "the change of %s was not stored: the log is full", n.ID).Because(err).WithRetryAfter(30 * time.Second)
	case errors.Is(err, broker.ErrBodyLost):
		f = errcode.New(errcode.InputLost, "the stored reply of %s: %w", n.ID, err)
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) && broker.CutOff(err):
		// A deadline without a cause is the caller's. The error it caused says nothing about the
		// broker.
		f = errcode.New(errcode.CallerDeadline, "the call's deadline passed before %s was read or changed; call again with a longer one", describe(n)).Because(err)
	case broker.Unavailable(err):
		f = errcode.New(errcode.BrokerUnavailable, "%s could not be read or changed: %s", describe(n), broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
	default:
		f = errcode.From(err)
	}
	if f.JobID == "" && n.ID != "" {
		f = f.ForJob(n.ID)
	}
	return f
}

func describe(n subject.JobName) string {
	if n.ID == "" {
		return "the list"
	}
	return n.ID
}

func notFound(n subject.JobName) *errcode.Error {
	if n.Kind == subject.Chat {
		return errcode.New(errcode.ChatNotFound, "chat %q not found", errcode.Clip(n.ID, 64))
	}
	return errcode.New(errcode.TaskNotFound, "video task %q not found", errcode.Clip(n.ID, 64))
}

// FinalError marks the error of an ended job. Repeating the request does not change it.
type FinalError struct{ why *errcode.Error }

func (e *FinalError) Error() string { return e.why.Error() }
func (e *FinalError) Unwrap() error { return e.why }

// LogLevel returns the level at which a call's error is logged, if at all. Internal errors are
// logged at error level, and errors that hide details from the caller at debug level. Internal
// errors after the caller has left mostly result from that, so they are logged at debug level too.
func LogLevel(ctx context.Context, f *errcode.Error) (level slog.Level, logged bool) {
	if f.Code == errcode.Internal && ctx.Err() == nil {
		return slog.LevelError, true
	}
	return slog.LevelDebug, f.Code == errcode.Internal || f.Hides()
}

// PanicFault returns the error for a call that panicked.
func PanicFault() *errcode.Error {
	return &errcode.Error{Code: errcode.Internal, Message: "a bug in genbus stopped this call; report it with the X-Request-Id"}
}

func shutdownFault(cause error) *errcode.Error {
	var f *errcode.Error
	switch {
	case errors.As(cause, &f):
		return f
	case cause != nil:
		return errcode.New(errcode.ShuttingDown, "this replica is shutting down: %w", cause).WithRetryAfter(time.Second)
	default:
		return errcode.New(errcode.ShuttingDown, "this replica is shutting down; resume from the last event, and resend unanswered requests").WithRetryAfter(time.Second)
	}
}
