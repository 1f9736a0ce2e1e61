package telemetry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestTenantsHaveBoundedSeries checks that a bounded number of the largest tenants get and keep
// their own series, and that no counter goes backwards.
func TestTenantsHaveBoundedSeries(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("test")
	m.LabelTenants(2)
	accept := func(tenants ...string) {
		for _, tenant := range tenants {
			m.Accepted(subject.Video, telemetry.IngressHTTP, tenant)
		}
	}
	accept("acme", "globex")
	m.TenantRefused("acme", "rate_limited")
	m.TenantsUnfinished(map[string]int64{"acme": 7, "idle": 0}, 10)
	accept("acme", "globex")
	m.TenantsUnfinished(map[string]int64{"small": 1, "globex": 3, "acme": 7}, 12)
	m.TenantRefused("acme", "tenant_full")
	accept("acme", "globex", "small")
	for i := range 1000 { // a publisher invents tenants, each with more jobs than all before
		name := fmt.Sprint("made-up-", i)
		accept(name)
		m.TenantRefused(name, "rate_limited")
		m.TenantsUnfinished(map[string]int64{name: int64(100 + i), "acme": 1}, int64(200+i))
	}
	if got := m.LabelledTenants(); !slices.Equal(got, []string{"acme", "globex"}) {
		t.Errorf("series have %v", got)
	}
	expectMetrics(t, m, `
		genbus_tenant_jobs_accepted_total{tenant="acme"} 2
		genbus_tenant_jobs_accepted_total{tenant="globex"} 1
		genbus_tenant_jobs_accepted_total{tenant="(others)"} 1004
		genbus_tenant_refused_total{code="rate_limited",tenant="acme"} 0
		genbus_tenant_refused_total{code="tenant_full",tenant="acme"} 1
		genbus_tenant_refused_total{code="rate_limited",tenant="(others)"} 1001
		genbus_tenant_unfinished_jobs{tenant="acme"} 1
		genbus_tenant_unfinished_jobs{tenant="globex"} 0
		genbus_tenant_unfinished_jobs{tenant="(others)"} 1198
	`)
	if body := scrape(t, m.Handler()); strings.Contains(body, "made-up") {
		t.Error("a tenant that was made up has series")
	}
}

// TestNoTenantIsNamed checks that tenants have no series unless enabled.
func TestNoTenantIsNamed(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics("test")
	m.LabelTenants(0)
	m.Accepted(subject.Video, telemetry.IngressHTTP, "acme")
	m.TenantRefused("acme", "tenant_full")
	m.TenantsUnfinished(map[string]int64{"acme": 7}, 7)
	if body := scrape(t, m.Handler()); strings.Contains(body, "acme") || strings.Contains(body, "genbus_tenant_") {
		t.Error("tenants have series")
	}
}
