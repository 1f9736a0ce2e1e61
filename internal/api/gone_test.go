package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestWhatIsCountedOfWhoLeft: a failure after the client went away is nobody's,
// but a panic is ours whoever listens.
func TestWhatIsCountedOfWhoLeft(t *testing.T) {
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
		"failed":           {t.Context(), answers(fault.AcceptanceUnknown), "500"},
		"failed, gone":     {gone, answers(fault.AcceptanceUnknown), "499"},
		"no broker, gone":  {gone, answers(fault.BrokerUnavailable), "499"},
		"no broker, ended": {ended, answers(fault.BrokerUnavailable), "503"},
		"refused, gone":    {gone, answers(fault.ModelNotFound), "404"},
		"answered, gone":   {gone, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }, "201"},
		"panic, gone":      {gone, func(http.ResponseWriter, *http.Request) { panic("a bug") }, "500"},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /x", row.handler)
		h := &web{mux: &patterns{ServeMux: mux}, log: slog.New(slog.DiscardHandler), metrics: telemetry.NewMetrics("test")}
		h.serve(httptest.NewRecorder(), httptest.NewRequestWithContext(row.ctx, http.MethodGet, "/x", nil))
		w := httptest.NewRecorder()
		h.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
		if line := `genbus_http_requests_total{code="` + row.want + `",route="GET /x"} 1`; !strings.Contains(w.Body.String(), line) {
			t.Errorf("%s: no %s", name, line)
		}
	}
}

// TestUnknownAcceptanceIsRepeatedWithAKey: SDKs send a request again whose acceptance is
// unknown only where the key makes the repeat attach.
func TestUnknownAcceptanceIsRepeatedWithAKey(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"": "false", "k1": "true"} {
		w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		h := &web{core: &core{}, log: slog.New(slog.DiscardHandler)}
		(&exchange{response: asResponse(w, r), r: r, web: h}).fail(fault.New(fault.AcceptanceUnknown, "no answer"))
		if got := w.Header().Get("X-Should-Retry"); got != want {
			t.Errorf("with key %q: X-Should-Retry %q, want %q", key, got, want)
		}
	}
}

func answers(code fault.Code) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fault.New(code, "no").WriteHTTP(w) }
}

func TestCodesOfWhoLeft(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	late, end := context.WithDeadline(t.Context(), time.Now())
	defer end()
	for _, row := range []struct {
		ctx        context.Context
		code, want codes.Code
	}{
		{t.Context(), codes.Unknown, codes.Unknown},
		{gone, codes.Unknown, codes.Canceled},
		{gone, codes.Unavailable, codes.Canceled},
		{late, codes.Internal, codes.DeadlineExceeded},
		{gone, codes.NotFound, codes.NotFound},
	} {
		if got := counted(row.ctx, row.code); got != row.want {
			t.Errorf("%v after %v counts as %v, want %v", row.code, row.ctx.Err(), got, row.want)
		}
	}
}

// TestMeaningOfACallersDeadline: what it cut off is no trouble of the broker. What the
// broker had said by then is, and so is a connection that was lost.
func TestMeaningOfACallersDeadline(t *testing.T) {
	t.Parallel()
	n := subject.TaskName{Kind: subject.Chat, ID: "chat_x"}
	cut := fmt.Errorf("read: %w", errors.Join(broker.ErrUnavailable, context.DeadlineExceeded))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	own, end := context.WithTimeoutCause(t.Context(), 0, fault.New(fault.AcceptanceUnknown, "no answer"))
	defer end()
	for name, c := range map[string]struct {
		ctx  context.Context //nolint:containedctx // what is tested
		err  error
		want fault.Code
	}{
		"cut off":             {late, cut, fault.CallerDeadline},
		"by a limit of ours":  {own, cut, fault.AcceptanceUnknown},
		"by the read's limit": {t.Context(), cut, fault.BrokerUnavailable},
		"not connected":       {late, broker.ErrUnavailable, fault.BrokerUnavailable},
		"connection lost":     {late, errors.Join(cut, nats.ErrDisconnected), fault.BrokerUnavailable},
		"no leader":           {late, errors.Join(cut, &jetstream.APIError{Code: 503, ErrorCode: 10008}), fault.BrokerUnavailable},
		"a body lost":         {late, errors.Join(cut, broker.ErrBodyLost), fault.InputLost},
		"a change, perhaps":   {late, errors.Join(cut, tasklog.ErrUncertain), fault.AcceptanceUnknown},
	} {
		if f := meaning(c.ctx, n, c.err); f.Code != c.want || f.JobID != n.ID {
			t.Errorf("%s: %v, want %s", name, f, c.want)
		}
	}
}
