package quota

import (
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

// slotWait is what a tenant without a slot is told to wait. When a job of it ends is
// not known.
const slotWait = 5 * time.Second

// Acquire takes a slot for a job that is being accepted, or for a chat that runs
// on its caller's connection, until release is called. A tenant that has as many
// unfinished jobs and taken slots as it may have is refused with tenant_full. A
// job counts twice for the moment between its first event and release, so that
// of many at once the last may be refused early, but never one too many is taken
// on one replica.
func (q *Quota) Acquire(tenant string) (release func(), err error) {
	most := q.o.Limits(tenant).MaxJobs
	if most == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if has := q.o.Unfinished(tenant) + q.acquired[tenant]; has >= most {
		return nil, errcode.New(errcode.TenantFull, "the tenant has %d unfinished jobs and may have %d; nothing was accepted", has, most).WithRetryAfter(slotWait)
	}
	q.acquired[tenant]++
	return func() { q.release(tenant) }, nil
}

func (q *Quota) release(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.acquired[tenant]--; q.acquired[tenant] == 0 {
		delete(q.acquired, tenant)
	}
}
