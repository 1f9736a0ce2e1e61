package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestReportsOfARenewedKey proves that reports by clients from before a reload do not affect a
// renewed key, while those by later clients do, even with an older slot.
func TestReportsOfARenewedKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics("v1")
		ups := config.Upstreams{"a": with(nil, "1")}
		p := pool.New(ups, pool.Options{Metrics: m})
		c, a := p.Chooser(along("a")), pool.UpstreamKey{Upstream: "a", Key: "1"}
		inUse, resumed := get(t, c, new(pool.Tried)), p.Resume(a)
		report(t, c, asking(slowDown, time.Hour))
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		next := c.Next()
		p.Reload(ups, config.Retry{}, a)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
		pass(time.Second)
		inUse.Report(c, aJob, &badKey)
		resumed.Report(c, aJob, &badKey)
		report(t, c, &badKey)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
		resumed.Report(next, aJob, &badKey)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		pass(time.Second)
		report(t, c, nil)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
		report(t, next, nil)
		expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
		inUse.Release()
		resumed.Release()
	})
}

// TestRefusalsOfAKeyThatStays proves that reports on an unchanged key count under any
// configuration.
func TestRefusalsOfAKeyThatStays(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	ups := config.Upstreams{"a": with(nil, "1", "2")}
	p := pool.New(ups, pool.Options{Metrics: m})
	c := p.Chooser(along("a"))
	p.Reload(ups, config.Retry{}, pool.UpstreamKey{Upstream: "a", Key: "2"})
	expect(t, []string{report(t, c, &badKey)}, "a/1")
	expectMetrics(t, m, `upstream_keys_out{upstream="a"} 1`)
}

// TestKeyThatComesBack proves that reports on an earlier secret do not affect a key that was
// removed and added again.
func TestKeyThatComesBack(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("v1")
	ups := config.Upstreams{"a": with(nil, "1")}
	p := pool.New(ups, pool.Options{Metrics: m})
	c := p.Chooser(along("a"))
	p.Reload(config.Upstreams{"a": with(nil, "2")}, config.Retry{})
	p.Reload(ups, config.Retry{})
	expect(t, []string{report(t, c, &badKey)}, "a/1")
	expectMetrics(t, m, `upstream_keys_out{upstream="a"} 0`)
}
