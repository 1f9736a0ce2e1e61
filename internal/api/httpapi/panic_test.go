package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestPanicInTheMiddleOfAnAnswer checks that the client of a panicking call does not take a partial
// answer for a whole one.
func TestPanicInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /late", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "part"); err != nil {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		panic("late")
	})
	mux.HandleFunc("GET /abort", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	h := &Handler{core: &core.Core{WriteTimeout: time.Minute}, mux: &patterns{ServeMux: mux}, log: slog.New(slog.DiscardHandler), metrics: telemetry.NewMetrics("test")}
	s := httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Start()
	defer s.Close()
	for path, wantErr := range map[string]error{"/late": io.ErrUnexpectedEOF, "/abort": io.EOF} {
		res, err := s.Client().Get(s.URL + path)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if !errors.Is(err, wantErr) {
			t.Errorf("%s: %v, want %v", path, err, wantErr)
		}
	}
}
