package queue

import (
	"slices"
	"strings"
	"time"
)

// roundRobin says which job of a route's backlog is next: the tenants are in a ring,
// and each of them has its jobs in the order in which they came. A new tenant goes to
// the end of the ring, so that it waits for one job of each other tenant at most, and
// tenants that leave and come back gain nothing.
//
// It is not safe for concurrent use.
type roundRobin struct {
	ring    []*tenantQueue
	tenants map[string]*tenantQueue
	// postponed are the jobs that are in no tenant's queue for a while, the first ones first.
	postponed []postponedJob
	size      uint64 // jobs of all tenants
}

// postponedJob is a job that waits for itself alone.
type postponedJob struct {
	tenant string
	seq    uint64
	until  time.Time
}

// tenantQueue is the jobs of one tenant.
type tenantQueue struct {
	tenant string
	// jobs are the sequences of its work items, in order: eight bytes for each job
	// is all that a replica keeps of the backlog.
	jobs []uint64
	// notBefore is when its next job may be looked at again, after one that could
	// not be dispatched; zero for now. passedOver is until when its jobs have no turn,
	// and those of others do not wait for them; zero for not.
	notBefore, passedOver time.Time
	// missed counts the jobs in a row that another replica had dispatched.
	missed int
}

func newRoundRobin() *roundRobin {
	return &roundRobin{tenants: map[string]*tenantQueue{}}
}

// add adds a job. Sequences come in order, except for those that are put back.
func (r *roundRobin) add(tenant string, seq uint64) {
	t := r.tenants[tenant]
	if t == nil {
		t = &tenantQueue{tenant: strings.Clone(tenant)} // it is a part of a message's memory
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

// next takes the job whose turn it is, and moves its tenant to the end of the ring.
// It is false when there is no job, or none may be looked at yet.
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

// requeue puts a tenant at the end of the ring, or out of it.
func (r *roundRobin) requeue(t *tenantQueue) {
	if len(t.jobs) == 0 {
		delete(r.tenants, t.tenant)
		return
	}
	r.ring = append(r.ring, t)
}

// putBack adds a job again that could not be dispatched, and has its tenant wait until then.
func (r *roundRobin) putBack(tenant string, seq uint64, until time.Time) {
	r.add(tenant, seq)
	r.tenants[tenant].notBefore = until
}

// postpone is putBack for a job that does not have its tenant wait. The times come in order.
func (r *roundRobin) postpone(tenant string, seq uint64, until time.Time) {
	r.postponed = append(r.postponed, postponedJob{tenant, seq, until})
	r.size++
}

// resumePostponed adds the jobs again whose time has come.
func (r *roundRobin) resumePostponed(now time.Time) {
	for len(r.postponed) > 0 && !r.postponed[0].until.After(now) {
		j := r.postponed[0]
		r.postponed = r.postponed[1:]
		r.size--
		r.add(j.tenant, j.seq)
	}
}

// passOver is putBack for a tenant of which no job is to be dispatched until then.
func (r *roundRobin) passOver(tenant string, seq uint64, until time.Time) {
	r.putBack(tenant, seq, until)
	r.tenants[tenant].passedOver = until
}

// waits reports whether a tenant waits that is not passed over.
func (r *roundRobin) waits(now time.Time) bool {
	r.resumePostponed(now)
	return slices.ContainsFunc(r.ring, func(t *tenantQueue) bool { return !t.passedOver.After(now) })
}

// hit notes that a tenant's job was where it was expected.
func (r *roundRobin) hit(tenant string) {
	if t := r.tenants[tenant]; t != nil {
		t.missed = 0
	}
}

// miss notes that another replica had dispatched a tenant's job, and counts those in a row.
func (r *roundRobin) miss(tenant string) int {
	t := r.tenants[tenant]
	if t == nil {
		return 0
	}
	t.missed++
	return t.missed
}

// latest is the last of a tenant's jobs that is known; 0 for none.
func (r *roundRobin) latest(tenant string) uint64 {
	t := r.tenants[tenant]
	if t == nil {
		return 0
	}
	return t.jobs[len(t.jobs)-1]
}

// forget drops the tenant's jobs before a sequence.
func (r *roundRobin) forget(tenant string, before uint64) {
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
