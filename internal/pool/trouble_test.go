package pool_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// TestTroubleIsReported proves that the log names a failing upstream and the affected job at once
// and then every minute, and why a breaker opens, without the text of an upstream's answer.
func TestTroubleIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		u := with(func(u *config.Upstream) { u.Breaker.Failures = 3 })
		p := pool.New(config.Upstreams{"a": u, "b": u}, pool.Options{Metrics: telemetry.NewMetrics("v1"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c := p.Chooser(along("a"))
		refused := upstream.Error{Message: "dial tcp 127.0.0.1:1: connection refused", Scope: upstream.ScopeUpstream}
		told := func() int { return strings.Count(log.String(), "upstream call failed") }
		for range 2 {
			report(t, c, &refused)
			pass(time.Second)
		}
		if told() != 1 || !strings.Contains(log.String(), `job_id=video_1 tenant=acme route=r upstream=a error="`) || !strings.Contains(log.String(), "connection refused") {
			t.Errorf("the log says\n%s", log.String())
		}
		pass(time.Minute)
		report(t, c, &upstream.Error{Message: "a prompt", Code: "overloaded", HTTPStatus: 503, Scope: upstream.ScopeUpstream})
		if told() != 2 || !strings.Contains(log.String(), `breaker opened`) || !strings.Contains(log.String(), "status 503") || strings.Contains(log.String(), "a prompt") {
			t.Errorf("a minute later it says\n%s", log.String())
		}
		report(t, p.Chooser(along("b")), &upstream.Error{Code: "invalid_api_key", HTTPStatus: 401, Final: true, Scope: upstream.ScopeKey})
		if !strings.Contains(log.String(), `msg="upstream key refused" upstream_key=b http_status=401 upstream_code=invalid_api_key `) {
			t.Errorf("of a key that is refused it says\n%s", log.String())
		}
	})
}
