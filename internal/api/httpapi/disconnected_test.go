package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/core"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// TestFailuresAfterADisconnectAreNotCounted checks that failures after the client left are not
// counted, and panics always are.
func TestFailuresAfterADisconnectAreNotCounted(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("this replica goes down"))
	for name, row := range map[string]struct {
		ctx     context.Context
		handler http.HandlerFunc
		want    string
	}{
		"failed":           {t.Context(), answers(errcode.AcceptanceUnknown), "500"},
		"failed, gone":     {gone, answers(errcode.AcceptanceUnknown), "499"},
		"no broker, gone":  {gone, answers(errcode.BrokerUnavailable), "499"},
		"no broker, ended": {ended, answers(errcode.BrokerUnavailable), "503"},
		"refused, gone":    {gone, answers(errcode.ModelNotFound), "404"},
		"answered, gone":   {gone, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, "201"},
		"panic, gone":      {gone, func(http.ResponseWriter, *http.Request) { panic("a bug") }, "500"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /x", row.handler)
		h := &Handler{core: &core.Core{}, mux: &patterns{ServeMux: mux}, log: slog.New(slog.DiscardHandler), metrics: telemetry.NewMetrics("test")}
		h.serve(httptest.NewRecorder(), httptest.NewRequestWithContext(row.ctx, http.MethodGet, "/x", nil))
		w := httptest.NewRecorder()
		h.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if line := `genbus_http_requests_total{code="` + row.want + `",route="GET /x"} 1`; !strings.Contains(w.Body.String(), line) {
			t.Errorf("%s: no %s", name, line)
		}
	}
}

// TestUnknownAcceptanceIsRepeatedWithAKey checks that every path tells SDKs to repeat a request of
// unknown acceptance only if a key makes the repeat attach.
func TestUnknownAcceptanceIsRepeatedWithAKey(t *testing.T) {
	t.Parallel()
	kling, found := registry.Find("kling")
	if !found {
		t.Fatal("there is no Kling")
	}
	for name, refuse := range map[string]func(*exchange, *errcode.Error){
		"OpenAI's":   func(x *exchange, f *errcode.Error) { x.fail(f) },
		"a vendor's": func(x *exchange, f *errcode.Error) { x.surface = kling.Surface; x.fail(f) },
		"the gateway's": func(x *exchange, f *errcode.Error) {
			gatewayErrors(x.h.log)(x.ctx(), nil, nil, x.response, x.r, f)
		},
	} {
		for key, want := range map[string]string{"": "false", "k1": "true"} {
			w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
			if key != "" {
				r.Header.Set("Idempotency-Key", key)
			}
			h := &Handler{core: &core.Core{}, log: slog.New(slog.DiscardHandler)}
			refuse(&exchange{response: h.asResponse(w, r), r: r, h: h}, errcode.New(errcode.AcceptanceUnknown, "no answer"))
			if got := w.Header().Get("X-Should-Retry"); got != want {
				t.Errorf("%s path with key %q: X-Should-Retry %q, want %q", name, key, got, want)
			}
		}
	}
}

func answers(code errcode.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { errcode.New(code, "no").WriteHTTP(w) }
}
