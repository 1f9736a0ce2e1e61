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

// otherTenants are those without series of their own; no tenant has this name.
const otherTenants = "(others)"

// tenantLimits are the codes of what is refused because of a tenant's own limits.
var tenantLimits = []errcode.Code{errcode.RateLimited, errcode.TenantFull}

// tenantMetrics have series of the first tenants that are among the largest. A tenant keeps
// its series until the process ends: a counter that moved to another label and back would
// seem to go backwards, and each new label is a series that Prometheus keeps.
type tenantMetrics struct {
	unfinished *prometheus.GaugeVec
	accepted   *prometheus.CounterVec
	refused    *prometheus.CounterVec

	mu    sync.RWMutex
	most  int             // tenants with series of their own; 0: there are no series at all
	named map[string]bool // those that have some
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

// LabelTenants has so many tenants get series of their own, at most; all others share one. It
// is called once, before anything is counted. Without it, or for 0, no tenant is counted.
func (m *Metrics) LabelTenants(most int) {
	m.tenants.mu.Lock()
	defer m.tenants.mu.Unlock()
	if m.tenants.most = most; most > 0 {
		m.tenants.start(otherTenants)
	}
}

// start makes the series of a tenant exist before they first count. It needs the lock.
func (t *tenantMetrics) start(tenant string) {
	t.accepted.WithLabelValues(tenant)
	for _, code := range tenantLimits {
		t.refused.WithLabelValues(tenant, string(code))
	}
}

// label is the tenant, or the one of those without series of their own; false where no
// tenant is counted.
func (t *tenantMetrics) label(tenant string) (label string, counted bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.named[tenant] {
		return tenant, true
	}
	return otherTenants, t.most > 0
}

func (t *tenantMetrics) accept(tenant string) {
	if label, counted := t.label(tenant); counted {
		t.accepted.WithLabelValues(label).Inc()
	}
}

// TenantRefused counts what was refused because of a tenant's limits, with the code string of
// the error table.
func (m *Metrics) TenantRefused(tenant, code string) {
	if label, counted := m.tenants.label(tenant); counted {
		m.tenants.refused.WithLabelValues(label, code).Inc()
	}
}

// LabelledTenants are the tenants that have series of their own.
func (m *Metrics) LabelledTenants() []string {
	m.tenants.mu.RLock()
	defer m.tenants.mu.RUnlock()
	return slices.Sorted(maps.Keys(m.tenants.named))
}

// TenantsUnfinished sets the unfinished jobs of those tenants that have series, and of all
// others together: jobs are those of the former and of the largest tenants, total those of
// all. While there are series left, the largest get them.
func (m *Metrics) TenantsUnfinished(jobs map[string]int64, total int64) {
	t := m.tenants
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most == 0 {
		return
	}
	largest := slices.SortedFunc(maps.Keys(jobs), func(a, b string) int { return cmp.Or(cmp.Compare(jobs[b], jobs[a]), cmp.Compare(a, b)) })
	for _, tenant := range largest {
		if len(t.named) < t.most && jobs[tenant] > 0 && !t.named[tenant] {
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
