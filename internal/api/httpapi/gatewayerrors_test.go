package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
)

// TestFailuresOfTheGatewayAreLogged checks that a failure whose text the caller does not get is in
// the log, without the body, and that other errors are not logged twice.
func TestFailuresOfTheGatewayAreLogged(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err    error
		status int
		logged string
	}{
		"the encoder's":        {errors.New("proto: field x contains invalid UTF-8"), 500, "proto: field x contains invalid UTF-8"},
		"gRPC's":               {status.Error(codes.Internal, "grpc: failed to unmarshal"), 500, "grpc: failed to unmarshal"},
		"a service's":          {grpcstatus.Of(errcode.New(errcode.Internal, "a bug")).Err(), 500, ""},
		"a decoder's":          {status.Error(codes.InvalidArgument, "proto: syntax error"), 400, ""},
		"a stopped server's":   {status.Error(codes.Unavailable, "the connection is closing"), 503, ""},
		"of a caller who left": {status.FromContextError(context.Canceled).Err(), 499, ""},
	} {
		var log bytes.Buffer
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/genbus/v1/videos/video_x/cancel", strings.NewReader(`{"a secret":1}`))
		r.Pattern = "POST /genbus/v1/videos/{id}/cancel"
		gatewayErrors(slog.New(slog.NewTextHandler(&log, nil)))(r.Context(), nil, nil, w, r, row.err)
		if w.Code != row.status || row.logged == "" && log.Len() > 0 {
			t.Errorf("%s: %d %s, log %s", name, w.Code, w.Body, log.String())
		}
		for _, part := range []string{"level=ERROR", r.Pattern, row.logged} {
			if row.logged != "" && !strings.Contains(log.String(), part) {
				t.Errorf("%s: no %q in %s", name, part, log.String())
			}
		}
		if strings.Contains(log.String(), "secret") || row.logged != "" && strings.Contains(w.Body.String(), row.logged) {
			t.Errorf("%s: log %s, answer %s", name, log.String(), w.Body)
		}
	}
}
