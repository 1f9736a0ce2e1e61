package routes

import (
	"context"
	"errors"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// Fault converts an upstream error to an errcode.Error and keeps everything that the upstream
// reported: its code, HTTP status, request ID and retry delay.
func Fault(err error) *errcode.Error {
	var up *upstream.Error
	if !errors.As(err, &up) {
		return errcode.From(err)
	}
	of, said := code(up), *up
	if said.Code == string(of) {
		said.Code = "" // Code already contains it
	}
	return &errcode.Error{
		Code: of, Message: said.Error(), RetryAfter: up.RetryAfter, Err: err, TimedOut: chat.TimedOut(up),
		UpstreamCode: up.Code, UpstreamHTTPStatus: up.HTTPStatus, UpstreamRequestID: up.RequestID,
	}
}

func code(up *upstream.Error) errcode.Code {
	switch {
	case errors.Is(up.Err, context.Canceled):
		return errcode.CallerGone
	case up.Code == "stream_truncated":
		return errcode.StreamTruncated
	case errors.Is(up.Err, context.DeadlineExceeded), chat.TimedOut(up):
		return errcode.UpstreamTimeout
	case up.HTTPStatus == 429 && !up.Final:
		return errcode.UpstreamRateLimited
	// An error that the upstream did not report itself comes from a proxy and may be temporary,
	// unless it concerns the request.
	case up.Final && (up.Reported || up.Scope == upstream.ScopeRequest):
		return errcode.UpstreamRefused
	default:
		return errcode.UpstreamUnavailable
	}
}
