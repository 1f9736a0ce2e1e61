package quota

import (
	"time"

	"github.com/genbus/genbus/internal/fault"
)

// placeWait is what a tenant without a place is told to wait. Nobody knows when a
// job of it ends.
const placeWait = 5 * time.Second

// Enter takes a place for a job that is being accepted, or for a chat that runs
// on its caller's connection, until leave is called. A tenant that has as many
// unfinished jobs and taken places as it may have is refused with tenant_full. A
// job counts twice for the moment between its first event and leave, so that
// of many at once the last may be refused early, but never one too many is taken
// on one replica.
func (q *Quota) Enter(tenant string) (leave func(), err error) {
	most := q.o.Limits(tenant).MaxJobs
	if most == 0 {
		return func() {}, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if has := q.o.Unfinished(tenant) + q.entered[tenant]; has >= most {
		return nil, fault.New(fault.TenantFull, "the tenant has %d unfinished jobs and may have %d; nothing was accepted", has, most).WithRetryAfter(placeWait)
	}
	q.entered[tenant]++
	return func() { q.leave(tenant) }, nil
}

func (q *Quota) leave(tenant string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entered[tenant]--; q.entered[tenant] == 0 {
		delete(q.entered, tenant)
	}
}
