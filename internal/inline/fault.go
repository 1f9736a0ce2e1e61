package inline

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/upstream"
)

// explain returns the error for a failed upstream call. If genbus or the caller ended the call, the
// error gives that reason instead of what the connection reported.
func (c *call) explain(err error) *errcode.Error {
	cause := context.Cause(c.ctx)
	switch {
	case errors.Is(cause, errShutdown):
		return errcode.New(errcode.ShuttingDown, "the chat was interrupted: %w", errShutdown)
	case errors.Is(cause, errCancelled):
		return errcode.New(errcode.Cancelled, "%w", errCancelled)
	case cause != nil:
		return errcode.New(errcode.CallerGone, "the upstream call was abandoned: %w", errDisconnected)
	default:
		return passOn(err)
	}
}

// passOn converts the upstream's error for the caller. A 4xx response keeps its status and message.
// But a refusal of our key or account, whatever its status, and 401, 403 and 407 do not, because SDKs
// would blame the caller's key.
func passOn(err error) *errcode.Error {
	f := *routes.Fault(err)
	up, ok := errors.AsType[*upstream.Error](err)
	if !ok || !up.Reported || up.Denial != upstream.NotDenied || up.HTTPStatus < 400 || up.HTTPStatus > 499 {
		return &f
	}
	if slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired}, up.HTTPStatus) {
		f.Code = errcode.UpstreamRefused
		return &f
	}
	f.HTTPStatus, f.Type, f.Message = up.HTTPStatus, up.Type, up.Message
	if up.Param != "" {
		f.Violations = []errcode.Violation{{Field: up.Param, Description: up.Message}}
	}
	return &f
}
