package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestRoundRobinIsFair proves that a tenant's first job waits for at most one job of each other
// tenant, and that a tenant's jobs keep their order.
func TestRoundRobinIsFair(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		rr, now := newRoundRobin(), time.Now()
		last := map[string]uint64{}           // latest job, by tenant
		passed := map[string]map[string]int{} // jobs of other tenants served since a tenant's first job was waiting
		var seq uint64
		for range 500 {
			if tenant := fmt.Sprint(r.IntN(1 + r.IntN(12))); r.IntN(5) < 3 {
				seq++
				if rr.tenants[tenant] == nil {
					passed[tenant] = map[string]int{}
				}
				rr.add(tenant, seq)
				continue
			}
			tenant, got, ok := rr.next(now)
			if !ok {
				if len(rr.tenants) > 0 {
					t.Fatalf("seed %d: no job's turn, and %d tenants wait", seed, len(rr.tenants))
				}
				continue
			}
			if got <= last[tenant] {
				t.Fatalf("seed %d: job %d of tenant %s after %d", seed, got, tenant, last[tenant])
			}
			last[tenant], passed[tenant] = got, map[string]int{}
			for other := range rr.tenants {
				if other == tenant {
					continue
				}
				if passed[other][tenant]++; passed[other][tenant] > 1 {
					t.Fatalf("seed %d: tenant %s was passed by %d jobs of tenant %s", seed, other, passed[other][tenant], tenant)
				}
			}
		}
	}
}

func TestTurnThatIsPutBackKeepsItsPlaceInItsTenantsQueue(t *testing.T) {
	t.Parallel()
	rr, now := newRoundRobin(), time.Now()
	for seq := range uint64(4) {
		rr.add("a", seq+1)
	}
	rr.add("b", 9)
	var got []uint64
	for i := range 5 {
		tenant, seq, ok := rr.next(now)
		if !ok {
			t.Fatal("no job's turn")
		}
		if i == 0 { // the first dispatch of a fails
			rr.putBack(tenant, seq, now.Add(time.Second))
			now = now.Add(2 * time.Second)
		}
		got = append(got, seq)
	}
	if want := []uint64{1, 9, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

func TestTenantThatIsPutBackWaits(t *testing.T) {
	t.Parallel()
	rr, now := newRoundRobin(), time.Now()
	rr.add("a", 1)
	rr.putBack("a", 1, now.Add(time.Second))
	if tenant, seq, ok := rr.next(now); ok {
		t.Errorf("turn of %s, %d", tenant, seq)
	}
	if _, seq, ok := rr.next(now.Add(time.Second)); !ok || seq != 1 || len(rr.ring) != 0 {
		t.Errorf("got %d, %t; %d tenants are left", seq, ok, len(rr.ring))
	}
}

func TestPostponedJobDelaysNoneOfItsTenant(t *testing.T) {
	t.Parallel()
	rr, now := newRoundRobin(), time.Now()
	for seq := range uint64(3) {
		rr.add("a", seq+1)
	}
	until := now.Add(time.Second)
	next := func(want uint64) {
		t.Helper()
		if _, seq, _ := rr.next(now); seq != want {
			t.Fatalf("turn of %d, want %d", seq, want)
		}
	}
	next(1)
	rr.postpone("a", 1, until)
	next(2)
	if rr.size != 2 {
		t.Errorf("%d jobs are known, want the postponed one and the last one", rr.size)
	}
	now = until
	next(1)
	rr.postpone("a", 1, until.Add(time.Second))
	next(3)
	if next(0); rr.waits(now) || rr.size != 1 {
		t.Errorf("%d jobs are known, and one waits: %t", rr.size, rr.waits(now))
	}
	now = now.Add(time.Second)
	if !rr.waits(now) {
		t.Error("its time has come, and it does not wait")
	}
	next(1)
}

func TestOnlyTenantsThatAreNotPassedOverWait(t *testing.T) {
	t.Parallel()
	rr, now := newRoundRobin(), time.Now()
	until := now.Add(time.Second)
	rr.passOver("a", 1, until)
	if _, _, ok := rr.next(now); ok || rr.waits(now) || !rr.waits(until) {
		t.Errorf("a has a turn: %t; waits %t, and later %t", ok, rr.waits(now), rr.waits(until))
	}
	rr.putBack("b", 2, until) // a failed dispatch, to be retried
	if !rr.waits(now) {
		t.Error("b does not wait")
	}
}

func TestRemovedJobsHaveNoTurn(t *testing.T) {
	t.Parallel()
	rr := newRoundRobin()
	for seq := range uint64(10) {
		rr.add("a", seq+1)
		rr.add("a", seq+1) // reported twice
	}
	for range 3 {
		rr.miss("a")
	}
	rr.remove("a", 8)
	if _, seq, ok := rr.next(time.Now()); !ok || seq != 8 || rr.miss("a") != 1 || rr.latest("a") != 10 {
		t.Errorf("got %d, %t", seq, ok)
	}
	rr.remove("a", 11)
	rr.remove("a", 11)
	if len(rr.ring) != 0 || len(rr.tenants) != 0 || rr.latest("a") != 0 || rr.miss("a") != 0 {
		t.Errorf("left: %d in the ring, %d tenants", len(rr.ring), len(rr.tenants))
	}
}
