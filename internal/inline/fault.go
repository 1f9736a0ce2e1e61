package inline

import (
	"context"
	"errors"
	"net/http"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/upstream"
)

// explain gives the failure of the upstream call its meaning. When the call was
// ended on purpose, that is the reason, whatever the connection made of it.
func (c *call) explain(err error) *errcode.Error {
	cause := context.Cause(c.ctx)
	switch {
	case errors.Is(cause, errShutdown):
		return errcode.New(errcode.ShuttingDown, "the chat was interrupted: %w", errShutdown)
	case errors.Is(cause, errCancelled):
		return errcode.New(errcode.Cancelled, "%w", errCancelled)
	case cause != nil:
		return errcode.New(errcode.CallerGone, "the upstream call was abandoned: %w", errGone)
	default:
		return passOn(err)
	}
}

// passOn shows a caller what the upstream made of the request: its 4xx stay what
// they were. An upstream that refuses our own key has not refused the caller's,
// so that becomes upstream_refused.
func passOn(err error) *errcode.Error {
	f := *routes.Fault(err)
	up, ok := errors.AsType[*upstream.Error](err)
	if !ok || !up.Said || up.HTTPStatus < 400 || up.HTTPStatus > 499 {
		return &f
	}
	switch up.HTTPStatus {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		f.Code = errcode.UpstreamRefused
		return &f
	}
	f.HTTPStatus, f.Type, f.Message = up.HTTPStatus, up.Type, up.Message
	if up.Param != "" {
		f.Violations = []errcode.Violation{{Field: up.Param, Description: up.Message}}
	}
	return &f
}
