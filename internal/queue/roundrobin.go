package queue

import (
	"slices"
	"strings"
	"time"
)

// roundRobin orders a route's backlog. The tenants form a ring, and each tenant's jobs keep their
// order. A new tenant joins at the end of the ring, so its first job waits for at most one job of
// each other tenant, and a tenant gains nothing by leaving and rejoining. It is not safe for
// concurrent use.
type roundRobin struct {
	ring    []*tenantQueue
	tenants map[string]*tenantQueue
	// postponed holds jobs that are temporarily not in their tenants' queues, sorted by time.
	postponed []postponedJob
	size      uint64 // number of jobs of all tenants, including postponed ones
}

// postponedJob is a job that waits without holding up its tenant.
type postponedJob struct {
	tenant string
	seq    uint64
	until  time.Time
}

type tenantQueue struct {
	tenant string
	// jobs holds the sequences of the tenant's work items, in order. The index keeps only these
	// eight bytes per job.
	jobs []uint64
	// notBefore is when the tenant's next job may be tried again after a failed dispatch, or zero.
	// Until passedOver, the tenant gets no turn and does not count as waiting. passedOver is zero
	// if the tenant is not passed over.
	notBefore, passedOver time.Time
	// missed is the number of consecutive jobs that another replica had already dispatched.
	missed int
}

func newRoundRobin() *roundRobin {
	return &roundRobin{tenants: map[string]*tenantQueue{}}
}

// add adds a job. Sequences arrive in order, except for jobs that are put back.
func (r *roundRobin) add(tenant string, seq uint64) {
	t := r.tenants[tenant]
	if t == nil {
		t = &tenantQueue{tenant: strings.Clone(tenant)} // do not retain the message's memory
		r.tenants[t.tenant] = t
		r.ring = append(r.ring, t)
	}
	if n := len(t.jobs); n == 0 || t.jobs[n-1] < seq {
		t.jobs = append(t.jobs, seq)
		r.size++
		return
	}
	if at, found := slices.BinarySearch(t.jobs, seq); !found {
		t.jobs = slices.Insert(t.jobs, at, seq)
		r.size++
	}
}

// next removes and returns the next job and moves its tenant to the end of the ring. ok is false if
// no job may be tried now.
func (r *roundRobin) next(now time.Time) (tenant string, seq uint64, ok bool) {
	r.resumePostponed(now)
	for range len(r.ring) {
		t := r.ring[0]
		r.ring = r.ring[1:]
		if t.notBefore.After(now) {
			r.ring = append(r.ring, t)
			continue
		}
		seq, t.jobs = t.jobs[0], t.jobs[1:]
		r.size--
		r.requeue(t)
		return t.tenant, seq, true
	}
	return "", 0, false
}

// requeue moves a tenant to the end of the ring, or drops it if it has no jobs.
func (r *roundRobin) requeue(t *tenantQueue) {
	if len(t.jobs) == 0 {
		delete(r.tenants, t.tenant)
		return
	}
	r.ring = append(r.ring, t)
}

// putBack puts back a job whose dispatch failed, and delays its tenant until the given time.
func (r *roundRobin) putBack(tenant string, seq uint64, until time.Time) {
	r.add(tenant, seq)
	r.tenants[tenant].notBefore = until
}

// postpone puts a job back at the given time, without delaying its tenant. The times of successive
// calls must be ascending.
func (r *roundRobin) postpone(tenant string, seq uint64, until time.Time) {
	r.postponed = append(r.postponed, postponedJob{tenant, seq, until})
	r.size++
}

// resumePostponed returns postponed jobs to their tenants' queues when they are due.
func (r *roundRobin) resumePostponed(now time.Time) {
	for len(r.postponed) > 0 && !r.postponed[0].until.After(now) {
		j := r.postponed[0]
		r.postponed = r.postponed[1:]
		r.size--
		r.add(j.tenant, j.seq)
	}
}

// passOver is like putBack but for a tenant whose jobs must not be dispatched until the given time.
func (r *roundRobin) passOver(tenant string, seq uint64, until time.Time) {
	r.putBack(tenant, seq, until)
	r.tenants[tenant].passedOver = until
}

// waits reports whether any tenants wait, apart from those that are passed over.
func (r *roundRobin) waits(now time.Time) bool {
	r.resumePostponed(now)
	return slices.ContainsFunc(r.ring, func(t *tenantQueue) bool { return !t.passedOver.After(now) })
}

// hit records that a tenant's job was found.
func (r *roundRobin) hit(tenant string) {
	if t := r.tenants[tenant]; t != nil {
		t.missed = 0
	}
}

// miss records that another replica had dispatched a tenant's job. It returns the number of
// consecutive misses.
func (r *roundRobin) miss(tenant string) int {
	t := r.tenants[tenant]
	if t == nil {
		return 0
	}
	t.missed++
	return t.missed
}

// latest returns the sequence of a tenant's last known job, or 0.
func (r *roundRobin) latest(tenant string) uint64 {
	t := r.tenants[tenant]
	if t == nil {
		return 0
	}
	return t.jobs[len(t.jobs)-1]
}

// remove drops a tenant's jobs with sequences below before.
func (r *roundRobin) remove(tenant string, before uint64) {
	t := r.tenants[tenant]
	if t == nil {
		return
	}
	at, _ := slices.BinarySearch(t.jobs, before)
	t.jobs, t.missed = t.jobs[at:], 0
	r.size -= uint64(at)
	if len(t.jobs) == 0 {
		delete(r.tenants, tenant)
		r.ring = slices.DeleteFunc(r.ring, func(o *tenantQueue) bool { return o == t })
	}
}
