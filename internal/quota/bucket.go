package quota

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/errcode"
)

// maxBuckets limits the number of buckets on one replica, because NATS clients can invent tenants.
// A bucket takes a few hundred bytes. When the limit is reached, the tenant that has been idle the
// longest loses its bucket and gets a full one with its next request.
const maxBuckets = 10_000

// bucket holds the requests that a tenant may still make.
type bucket struct {
	tenant string
	*rate.Limiter
}

// Request takes one request from a tenant's bucket. If the bucket is empty, it returns rate_limited
// with the time until the next request is allowed.
func (q *Quota) Request(tenant string) error {
	limits := q.o.Limits(tenant)
	if limits.RequestsPerSecond == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	taken := q.bucket(tenant, rate.Limit(limits.RequestsPerSecond), limits.Burst).ReserveN(now, 1)
	wait := taken.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	taken.CancelAt(now)
	return errcode.New(errcode.RateLimited, "the tenant may send %g requests a second and %d at once", limits.RequestsPerSecond, limits.Burst).WithRetryAfter(wait)
}

// bucket returns the tenant's bucket with the current limits. The caller holds mu.
func (q *Quota) bucket(tenant string, perSecond rate.Limit, burst int) *bucket {
	if e, ok := q.buckets[tenant]; ok {
		q.recent.MoveToFront(e)
		b := of(e.Value)
		if b.Limit() != perSecond || b.Burst() != burst {
			b.SetLimit(perSecond)
			b.SetBurst(burst)
		}
		return b
	}
	b := &bucket{tenant: tenant, Limiter: rate.NewLimiter(perSecond, burst)}
	q.buckets[tenant] = q.recent.PushFront(b)
	if q.recent.Len() > maxBuckets {
		delete(q.buckets, of(q.recent.Remove(q.recent.Back())).tenant)
	}
	return b
}

func of(v any) *bucket {
	b, _ := v.(*bucket)
	return b
}
