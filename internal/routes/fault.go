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
		Code: of, Message: blame[of] + said.Error(), RetryAfter: up.RetryAfter, Err: err, TimedOut: chat.TimedOut(up),
		UpstreamCode: up.Code, UpstreamHTTPStatus: up.HTTPStatus, UpstreamRequestID: up.RequestID,
	}
}

// blame begins the messages of errors whose upstream text would make callers look for the fault in
// their own key or account.
var blame = map[errcode.Code]string{
	errcode.UpstreamKeyRefused: "the upstream refused genbus's key, not yours: ",
	errcode.UpstreamQuota:      "genbus's quota at the upstream is used up, not yours: ",
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
	case up.Final && up.Denial == upstream.QuotaDenied:
		return errcode.UpstreamQuota
	case up.Final && up.Denial == upstream.KeyDenied:
		return errcode.UpstreamKeyRefused
	// An error that the upstream did not report itself comes from a proxy and may be temporary,
	// unless it concerns the request.
	case up.Final && (up.Reported || up.Scope == upstream.ScopeRequest):
		return errcode.UpstreamRefused
	default:
		return errcode.UpstreamUnavailable
	}
}
