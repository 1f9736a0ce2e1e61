package admission

import (
	"slices"
	"strings"
	"time"
)

// turns says whose turn it is to come into the line of a route: the tenants stand
// in a ring, and each of them has its jobs in the order in which they came. A
// tenant that comes anew goes to the end of the ring, so that it waits for one job
// of each other tenant at most, and those that leave and come back gain nothing.
//
// It is not safe for concurrent use.
type turns struct {
	ring    []*waiter
	tenants map[string]*waiter
}

// waiter is a tenant that waits.
type waiter struct {
	tenant string
	// jobs are the sequences of its work items, in order: eight bytes for each job
	// is all that a replica keeps of those that wait.
	jobs []uint64
	// notBefore is when its next job may be looked at again, after one that could
	// not be moved; zero for now.
	notBefore time.Time
	// missed counts the jobs in a row that somebody else had moved.
	missed int
}

func newTurns() *turns { return &turns{tenants: map[string]*waiter{}} }

// add lets a job wait. Sequences come in order, but for those that are put back.
func (t *turns) add(tenant string, seq uint64) {
	w := t.tenants[tenant]
	if w == nil {
		w = &waiter{tenant: strings.Clone(tenant)} // it is a part of a message's memory
		t.tenants[w.tenant] = w
		t.ring = append(t.ring, w)
	}
	if n := len(w.jobs); n == 0 || w.jobs[n-1] < seq {
		w.jobs = append(w.jobs, seq)
		return
	}
	if at, found := slices.BinarySearch(w.jobs, seq); !found {
		w.jobs = slices.Insert(w.jobs, at, seq)
	}
}

// next takes the job whose turn it is, and moves its tenant to the end of the ring.
// It is false when nobody waits, or nobody may be looked at yet.
func (t *turns) next(now time.Time) (tenant string, seq uint64, ok bool) {
	for range len(t.ring) {
		w := t.ring[0]
		t.ring = t.ring[1:]
		if w.notBefore.After(now) {
			t.ring = append(t.ring, w)
			continue
		}
		seq, w.jobs = w.jobs[0], w.jobs[1:]
		t.requeue(w)
		return w.tenant, seq, true
	}
	return "", 0, false
}

// requeue puts a tenant at the end of the ring, or out of it.
func (t *turns) requeue(w *waiter) {
	if len(w.jobs) == 0 {
		delete(t.tenants, w.tenant)
		return
	}
	t.ring = append(t.ring, w)
}

// putBack lets a job wait again that could not be moved, and its tenant until then.
func (t *turns) putBack(tenant string, seq uint64, until time.Time) {
	t.add(tenant, seq)
	t.tenants[tenant].notBefore = until
}

// hit notes that a tenant's job was where it was expected.
func (t *turns) hit(tenant string) {
	if w := t.tenants[tenant]; w != nil {
		w.missed = 0
	}
}

// miss notes that somebody else had moved a tenant's job, and counts those in a row.
func (t *turns) miss(tenant string) int {
	w := t.tenants[tenant]
	if w == nil {
		return 0
	}
	w.missed++
	return w.missed
}

// latest is the last of a tenant's jobs that is known; 0 for none.
func (t *turns) latest(tenant string) uint64 {
	w := t.tenants[tenant]
	if w == nil {
		return 0
	}
	return w.jobs[len(w.jobs)-1]
}

// forget drops the tenant's jobs before a sequence.
func (t *turns) forget(tenant string, before uint64) {
	w := t.tenants[tenant]
	if w == nil {
		return
	}
	at, _ := slices.BinarySearch(w.jobs, before)
	w.jobs, w.missed = w.jobs[at:], 0
	if len(w.jobs) == 0 {
		delete(t.tenants, tenant)
		t.ring = slices.DeleteFunc(t.ring, func(o *waiter) bool { return o == w })
	}
}
