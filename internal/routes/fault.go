package routes

import (
	"context"
	"errors"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/upstream"
)

// Fault gives an upstream's failure its meaning. Everything the upstream said is
// kept beside it.
func Fault(err error) *fault.Error {
	var up *upstream.Error
	if !errors.As(err, &up) {
		return fault.From(err)
	}
	of, said := code(up), *up
	if said.Code == string(of) {
		said.Code = "" // the fault says it already
	}
	return &fault.Error{
		Code: of, Message: said.Error(), RetryAfter: up.RetryAfter, Err: err,
		UpstreamCode: up.Code, UpstreamHTTPStatus: up.HTTPStatus, UpstreamRequestID: up.RequestID,
	}
}

func code(up *upstream.Error) fault.Code {
	switch {
	case errors.Is(up.Err, context.Canceled):
		return fault.CallerGone
	case up.Code == "stream_truncated":
		return fault.StreamTruncated
	case errors.Is(up.Err, context.DeadlineExceeded):
		return fault.UpstreamTimeout
	case up.HTTPStatus == 429 && !up.Final:
		return fault.UpstreamRateLimited
	case up.Final && up.Said:
		return fault.UpstreamRefused
	default:
		return fault.UpstreamUnavailable
	}
}
