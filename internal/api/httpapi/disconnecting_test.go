package httpapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
)

// TestADisconnectIsNoFailure checks that a client that leaves does not count as a failure, on all
// paths that accept jobs.
func TestADisconnectIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, leave := context.WithCancel(t.Context())
	leave()
	for path, body := range map[string]string{
		"/v1/video/generations":       `{"model":"sandbox-video","prompt":"a cat"}`,
		"/v1/videos":                  `{"model":"sandbox-videos","prompt":"a cat"}`,
		"/kling/v1/videos/text2video": `{"model_name":"sandbox-kling","prompt":"a cat"}`,
		"/jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31": `{"req_key":"sandbox-jimeng","prompt":"a cat"}`,
		"/v1/chat/completions": strings.Replace(apitest.StreamBody, `"stream":true`, `"stream":false`, 1),
		"/genbus/v1/videos":    `{"video":{"model":"sandbox-video","prompt":"a cat"}}`,
	} {
		r := httptest.NewRequestWithContext(gone, http.MethodPost, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w.Handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := w.counter("genbus_http_requests_total", map[string]string{"code": "499"}); n != 6 {
		t.Errorf("%v of 6 were counted as gone", n)
	}
	if gone, all := w.counter("genbus_jobs_refused_total", map[string]string{"code": "caller_gone"}), w.counter("genbus_jobs_refused_total", nil); gone != 4 || all != gone {
		t.Errorf("%v refusals, %v of callers who had gone", all, gone)
	}
	for _, code := range []string{"Unknown", "Internal", "Unavailable"} {
		if n := w.counter("genbus_grpc_requests_total", map[string]string{"code": code}); n != 0 {
			t.Errorf("%v gRPC calls: %s", n, code)
		}
	}
}
