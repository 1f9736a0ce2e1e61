package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
)

// TestAForgottenTenantIsNotHeldBack: of two jobs of a tenant that are looked at together, one
// is the last miss, which begins to skip, and the other one fails. The skip forgets both.
func TestAForgottenTenantIsNotHeldBack(t *testing.T) {
	t.Parallel()
	b := newBacklog()
	now := time.Now()
	reading := b.clear(now)
	for seq := range uint64(maxMissed + 1) {
		b.add(reading, "acme", seq+1)
	}
	b.end(reading)
	var skip bool
	for range maxMissed {
		j, _ := b.next(now)
		skip = b.miss(j)
	}
	if !skip {
		t.Fatal("no skip")
	}
	j, _ := b.next(now)
	b.putBack(j, retryMove)   // its read timed out
	b.forget("acme", j.seq+1) // what skip does where the backlog has none of it
	b.skipped("acme")
	if held, _ := b.heldBack(maxNamed); len(held) > 0 {
		t.Errorf("%v are held back, and %d tenants and no job wait", held, b.tenants())
	}
}

// TestTheDispatcherItselfHoldsBack a new job of a tenant that is passed over, as the others do,
// also while the only one that waits is looked at again.
func TestTheDispatcherItselfHoldsBack(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	q, _ := idle(t, b)
	waiting := wait(t, q)
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	r.Resize(4)
	now := time.Now()
	r.lease.Take(now, false)
	reading := r.backlog.clear(now)
	r.backlog.add(reading, waiting.Tenant, 1)
	r.backlog.end(reading)
	d := &dispatcher{q: q, route: r}
	j, _ := r.backlog.next(now)
	r.backlog.passOver(j, quota.LettersEvery)
	d.report(now)
	if _, ok := r.backlog.next(now.Add(2 * quota.LettersEvery)); !ok { // it is looked at again: letters.Check is asked
		t.Fatal("no turn")
	}
	d.report(now)
	if !r.lease.Named(waiting.Tenant) {
		t.Fatal("the others are not told")
	}
	place, settle := q.choosePlace(waiting)
	settle(false)
	if place.stream != b.Names().Wait() {
		t.Errorf("the dispatcher's own replica puts a new job of a tenant that is held back into %s", place.stream)
	}
}

// TestTenantsThatAreGoneDoNotCongestARoute: those that were forgotten are not told of, and not
// counted.
func TestTenantsThatAreGoneDoNotCongestARoute(t *testing.T) {
	t.Parallel()
	q, _ := idle(t, brokertest.Single(t))
	r := q.Route(subject.Video, config.SandboxVideoRoute)
	now := time.Now()
	d := &dispatcher{q: q, route: r}
	r.lease.Take(now, false)
	reading := r.backlog.clear(now)
	r.backlog.end(reading)
	for i := range maxNamed + 1 {
		tenant := fmt.Sprintf("t%03d", i)
		r.backlog.add(reading, tenant, uint64(i+1))
		j, _ := r.backlog.next(now)
		r.backlog.putBack(j, time.Hour)
		r.backlog.forget(tenant, j.seq+1)
	}
	d.report(now)
	if _, congested, _ := r.lease.Holder(now); congested {
		t.Errorf("%d tenants wait, and the route is congested", r.backlog.tenants())
	}
}
