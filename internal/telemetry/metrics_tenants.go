package telemetry

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/genbus/genbus/internal/errcode"
)

// otherTenants is the label of tenants without their own series. It is not a legal tenant name.
const otherTenants = "(others)"

// tenantLimits lists the codes of refusals due to a tenant's limits.
var tenantLimits = []errcode.Code{errcode.RateLimited, errcode.TenantFull}

// tenantMetrics has separate series for the first tenants that rank among the largest. A tenant
// keeps its series until the process ends. If its label changed, its counters would seem to go
// backwards, and Prometheus would store another series.
type tenantMetrics struct {
	unfinished *prometheus.GaugeVec
	accepted   *prometheus.CounterVec
	refused    *prometheus.CounterVec

	mu    sync.RWMutex
	limit int             // how many tenants may have their own series; 0 disables tenant metrics
	named map[string]bool // tenants with their own series
}

func newTenantMetrics(f promauto.Factory) *tenantMetrics {
	return &tenantMetrics{
		unfinished: gauges(f, "tenant_unfinished_jobs",
			"Accepted jobs of a tenant that have not ended, over all replicas, without inline chats, as this replica last heard it.", "tenant"),
		accepted: counters(f, "tenant_jobs_accepted_total",
			"Jobs of a tenant whose work item was stored, or inline chats that began.", "tenant"),
		refused: counters(f, "tenant_refused_total",
			"Requests of a tenant refused because of its limits.", "tenant", "code"),
		named: map[string]bool{},
	}
}

// LabelTenants sets how many tenants get their own series. All others share one series. Call it
// once, before anything is counted. If it is not called or limit is 0, tenants are not counted.
func (m *Metrics) LabelTenants(limit int) {
	m.tenants.mu.Lock()
	defer m.tenants.mu.Unlock()
	if m.tenants.limit = limit; limit > 0 {
		m.tenants.start(otherTenants)
	}
}

// start creates a tenant's series before their first event. The caller holds the lock.
func (t *tenantMetrics) start(tenant string) {
	t.accepted.WithLabelValues(tenant)
	for _, code := range tenantLimits {
		t.refused.WithLabelValues(tenant, string(code))
	}
}

// label returns the label of a tenant. counted is false if tenant metrics are disabled.
func (t *tenantMetrics) label(tenant string) (label string, counted bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.named[tenant] {
		return tenant, true
	}
	return otherTenants, t.limit > 0
}

func (t *tenantMetrics) accept(tenant string) {
	if label, counted := t.label(tenant); counted {
		t.accepted.WithLabelValues(label).Inc()
	}
}

// TenantRefused counts a request refused because of a tenant's limits, by its code from the error
// table.
func (m *Metrics) TenantRefused(tenant, code string) {
	if label, counted := m.tenants.label(tenant); counted {
		m.tenants.refused.WithLabelValues(label, code).Inc()
	}
}

// LabelledTenants returns the tenants with their own series, sorted.
func (m *Metrics) LabelledTenants() []string {
	m.tenants.mu.RLock()
	defer m.tenants.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.tenants.named))
}

// TenantsUnfinished sets the number of unfinished jobs of each labelled tenant, and of all other
// tenants together. jobs covers the labelled and the largest tenants, and total covers all tenants.
// Any series still available go to the largest tenants.
func (m *Metrics) TenantsUnfinished(jobs map[string]int64, total int64) {
	t := m.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit == 0 {
		return
	}
	largest := slices.SortedFunc(maps.Keys(jobs), func(a, b string) int { return cmp.Or(cmp.Compare(jobs[b], jobs[a]), cmp.Compare(a, b)) })
	for _, tenant := range largest {
		if len(t.named) < t.limit && jobs[tenant] > 0 && !t.named[tenant] {
			t.named[tenant] = true
			t.start(tenant)
		}
	}
	for tenant := range t.named {
		t.unfinished.WithLabelValues(tenant).Set(float64(jobs[tenant]))
		total -= jobs[tenant]
	}
	t.unfinished.WithLabelValues(otherTenants).Set(float64(max(total, 0)))
}
