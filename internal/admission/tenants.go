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

// Request counts a request of a tenant. Above the rate limit it returns rate_limited.
func (t *Tenants) Request(tenant string) error {
	err := t.quota.Request(tenant)
	t.countRefused(tenant, err)
	return err
}

// CheckRateLimit is Request for requests over NATS, where no server counts refusals. The tenant
// comes from the subject. Admit refuses an illegal one.
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

// Acquire takes a slot of the tenant, for a chat that is not enqueued, until release is called. If
// none is left, it returns tenant_full.
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

// Refusals returns the tenants that this replica refused most in the last hour because of their
// limits, at most n.
func (t *Tenants) Refusals(n int) []quota.Refused { return t.refusals.LastHour(n, time.Now()) }
