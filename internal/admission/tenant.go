package admission

import (
	"context"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Request counts one request of a tenant, whatever it asks for. One too many is
// refused with rate_limited.
func (a *Admission) Request(tenant string) error { return a.quota.Request(tenant) }

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
	}
	return err
}

// Acquire takes one of a tenant's slots for a chat that is not enqueued, until release
// is called. A tenant that has none left is refused with tenant_full.
func (a *Admission) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	return a.quota.Acquire(ctx, tenant)
}

// acquireSlot is Acquire for a job. One that was accepted already takes no slot: its log
// may still be empty when a repeat of its request comes, or has begun since it was read.
// Nor does one that an operator attaches: its upstream has it already.
func (a *Admission) acquireSlot(ctx context.Context, r Request, c Checked) (release func(), err error) {
	if r.Attached != nil {
		return func() {}, nil
	}
	release, err = a.quota.Acquire(ctx, r.Tenant)
	if err == nil || c.Fresh {
		return release, err
	}
	if _, readErr := a.queue.Items.Find(ctx, subject.TaskName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID}); readErr == nil {
		return func() {}, nil
	}
	if _, found, _ := a.attach(ctx, r, c); found {
		return func() {}, nil
	}
	return nil, err
}
