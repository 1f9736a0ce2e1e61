package admission

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

// Request counts one request of a tenant, whatever it asks for. One too many is
// refused with rate_limited.
func (a *Admission) Request(tenant string) error {
	err := a.quota.Request(tenant)
	a.countRefused(tenant, err)
	return err
}

// CheckRateLimit is Request for what came by NATS, where no server counts refusals. The
// tenant is a token of the subject; one that is not legal is left to Admit.
func (a *Admission) CheckRateLimit(r Request) error {
	legal := subject.CheckToken(r.Tenant) == nil
	if !legal {
		return nil
	}
	err := a.quota.Request(r.Tenant)
	if err != nil {
		a.metrics.Refused(r.Kind, r.Way, string(errcode.CodeOf(err)))
		a.countRefused(r.Tenant, err)
	}
	return err
}

// Acquire takes one of a tenant's slots for a chat that is not enqueued, until release
// is called. A tenant that has none left is refused with tenant_full.
func (a *Admission) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	release, err = a.quota.Acquire(ctx, tenant)
	a.countRefused(tenant, err)
	return release, err
}

// countRefused counts what was refused because of the tenant's own limits.
func (a *Admission) countRefused(tenant string, err error) {
	if err == nil {
		return
	}
	if code := errcode.CodeOf(err); code == errcode.RateLimited || code == errcode.TenantFull {
		a.refusals.Add(tenant, time.Now())
		a.metrics.TenantRefused(tenant, string(code))
	}
}

// Refusals are the tenants that this replica refused most in the last hour because of their
// limits, n at most.
func (a *Admission) Refusals(n int) []quota.Refused { return a.refusals.LastHour(n, time.Now()) }
