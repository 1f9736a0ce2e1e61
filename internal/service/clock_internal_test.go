package service

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// TestAWrongClockIsNotReadyForJobs proves that a replica with a wrong clock reports the offset, is
// not ready for jobs, and keeps serving calls.
func TestAWrongClockIsNotReadyForJobs(t *testing.T) {
	t.Parallel()
	var shift atomic.Int64
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), URL: brokertest.Alone(t).ClientURL(),
		Wall: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) },
	})
	s := &Service{broker: b, log: brokertest.Logger(t), health: &telemetry.Health{}, metrics: telemetry.NewMetrics("test")}
	s.parts = parts.New(parts.Options{Config: config.NewLive(config.Default()), Broker: b, Metrics: s.metrics, Logger: s.log})
	s.addChecks()
	expect := func(ready http.Handler, status int, body string) {
		t.Helper()
		var got *httptest.ResponseRecorder
		for end := time.Now().Add(time.Minute); ; { // results are cached for a second
			got = httptest.NewRecorder()
			ready.ServeHTTP(got, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			if got.Code == status && strings.Contains(got.Body.String(), body) {
				return
			}
			if broker.Wait(t.Context(), 10*time.Millisecond) != nil || time.Now().After(end) {
				t.Fatalf("%d %s, want %d and %s", got.Code, got.Body, status, body)
			}
		}
	}
	expect(s.health.JobsReadyz(), http.StatusOK, "ready")
	for way, by := range map[string]time.Duration{"ahead of the broker's": 49 * time.Hour, "behind the broker's": -49 * time.Hour} {
		shift.Store(int64(by))
		expect(s.health.JobsReadyz(), http.StatusServiceUnavailable, `{"check":"clock","reason":"this replica's clock is 4`)
		expect(s.health.JobsReadyz(), http.StatusServiceUnavailable, way)
		expect(s.metrics.Handler(), http.StatusOK, "\ngenbus_clock_offset_seconds "+map[bool]string{true: "17", false: "-17"}[by > 0])
		expect(s.health.Readyz(), http.StatusOK, "ready")
	}
	shift.Store(0)
	expect(s.health.JobsReadyz(), http.StatusOK, "ready")
}
