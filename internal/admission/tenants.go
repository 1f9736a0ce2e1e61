package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Tenants enforces the limits of tenants and counts refusals. It is safe for concurrent use.
type Tenants struct {
	quota    *quota.Quota
	refusals *quota.Refusals
	metrics  *telemetry.Metrics
}

func newTenants(o quota.Options, metrics *telemetry.Metrics) *Tenants {
	return &Tenants{quota: quota.New(o), refusals: quota.NewRefusals(), metrics: metrics}
}

// Request counts a request of a tenant. It returns rate_limited if the tenant exceeds its rate
// limit.
func (t *Tenants) Request(tenant string) error {
	err := t.quota.Request(tenant)
	t.countRefused(tenant, err)
	return err
}

// CheckRateLimit is like Request but for requests over NATS, where no server counts refusals. The
// tenant comes from the subject. CheckRateLimit ignores an invalid tenant, which Admit refuses.
func (t *Tenants) CheckRateLimit(r Request) error {
	legal := subject.CheckToken(r.Tenant) == nil
	if !legal {
		return nil
	}
	err := t.quota.Request(r.Tenant)
	if err != nil {
		t.metrics.Refused(r.Kind, r.Ingress, string(errcode.CodeOf(err)))
		t.countRefused(r.Tenant, err)
	}
	return err
}

// Acquire takes a slot of the tenant for a chat that is not enqueued. The slot stays taken until
// release is called. If no slot is left, Acquire returns tenant_full.
func (t *Tenants) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	release, err = t.quota.Acquire(ctx, tenant)
	t.countRefused(tenant, err)
	return release, err
}

// countRefused counts refusals due to the tenant's limits.
func (t *Tenants) countRefused(tenant string, err error) {
	if err == nil {
		return
	}
	if code := errcode.CodeOf(err); code == errcode.RateLimited || code == errcode.TenantFull {
		t.refusals.Add(tenant, time.Now())
		t.metrics.TenantRefused(tenant, string(code))
	}
}

// Refusals returns up to n tenants that this replica refused most often in the last hour because of
// their limits.
func (t *Tenants) Refusals(n int) []quota.Refused { return t.refusals.LastHour(n, time.Now()) }
