package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Tenants judges requests by the limits of their tenants and counts those it refuses. It is
// safe for concurrent use.
type Tenants struct {
	quota    *quota.Quota
	refusals *quota.Refusals
	metrics  *telemetry.Metrics
}

func newTenants(o quota.Options, metrics *telemetry.Metrics) *Tenants {
	return &Tenants{quota: quota.New(o), refusals: quota.NewRefusals(), metrics: metrics}
}

// Request counts one request of a tenant, whatever it asks for. One too many is
// refused with rate_limited.
func (t *Tenants) Request(tenant string) error {
	err := t.quota.Request(tenant)
	t.countRefused(tenant, err)
	return err
}

// CheckRateLimit is Request for requests that came by NATS, where no server counts
// refusals. The tenant is a token of the subject. One that is not legal is left to Admit.
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

// Acquire takes one of a tenant's slots for a chat that is not enqueued, until release
// is called. A tenant that has none left is refused with tenant_full.
func (t *Tenants) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	release, err = t.quota.Acquire(ctx, tenant)
	t.countRefused(tenant, err)
	return release, err
}

// countRefused counts what was refused because of the tenant's own limits.
func (t *Tenants) countRefused(tenant string, err error) {
	if err == nil {
		return
	}
	if code := errcode.CodeOf(err); code == errcode.RateLimited || code == errcode.TenantFull {
		t.refusals.Add(tenant, time.Now())
		t.metrics.TenantRefused(tenant, string(code))
	}
}

// Refusals are the tenants that this replica refused most in the last hour because of their
// limits, n at most.
func (t *Tenants) Refusals(n int) []quota.Refused { return t.refusals.LastHour(n, time.Now()) }
