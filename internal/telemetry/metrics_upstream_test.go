package telemetry_test

import (
	"testing"

	"github.com/genbus/genbus/internal/telemetry"
)

func TestMetricsOfAnUpstreamsState(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	u := m.Upstream("main")
	expectMetrics(t, m, `
		genbus_upstream_failovers_total{upstream="main"} 0
		genbus_upstream_breaker_open{upstream="main"} 0
		genbus_upstream_keys_out{upstream="main"} 0
		genbus_upstream_in_hand{upstream="main"} 0
	`)
	u.FailedOver()
	u.BreakerOpen(true)
	u.KeysOut(2)
	u.AddHeld(3)
	u.AddHeld(-1)
	m.Upstream("main").AddHeld(1) // adds to the same series
	expectMetrics(t, m, `
		genbus_upstream_failovers_total{upstream="main"} 1
		genbus_upstream_breaker_open{upstream="main"} 1
		genbus_upstream_keys_out{upstream="main"} 2
		genbus_upstream_in_hand{upstream="main"} 3
	`)
	u.BreakerOpen(false)
	expectMetrics(t, m, `genbus_upstream_breaker_open{upstream="main"} 0`)
}
