package fleet

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// fleet simulates replicas that agree on a lease's holder while messages are delayed, reordered and
// lost.
type fleet struct {
	now    time.Time
	leases []*Lease
	down   []bool // stopped: neither sends nor receives
	hangs  []bool // makes no progress and reports nothing
	queued []claimed
}

type claimed struct {
	from, to int
	claim    claim
	released bool
}

func newFleet(replicas int) *fleet {
	f := &fleet{now: time.Unix(1_800_000_000, 0), down: make([]bool, replicas), hangs: make([]bool, replicas)}
	for i := range replicas {
		f.leases = append(f.leases, NewLease(fmt.Sprintf("r%02d", i)))
	}
	return f
}

func (f *fleet) announce(from int) {
	c, ok := f.leases[from].claim(f.now)
	if !ok || f.down[from] {
		return
	}
	for to := range f.leases {
		if to != from {
			f.queued = append(f.queued, claimed{from: from, to: to, claim: c})
		}
	}
}

func (f *fleet) release(from int) {
	if !f.leases[from].Release() {
		return
	}
	for to := range f.leases {
		if to != from {
			f.queued = append(f.queued, claimed{from: from, to: to, released: true})
		}
	}
}

// deliver delivers or loses a queued message.
func (f *fleet) deliver(at int, lose bool) {
	m := f.queued[at]
	f.queued = append(f.queued[:at], f.queued[at+1:]...)
	if lose || f.down[m.to] {
		return
	}
	if m.released {
		f.leases[m.to].released(f.leases[m.from].self)
		return
	}
	if _, object := f.leases[m.to].handleClaim(f.leases[m.from].self, m.claim, f.now); object {
		f.announce(m.to)
	}
}

// converge lets time pass without loss, while replicas take the vacant lease and repeat their
// claims.
func (f *fleet) converge() {
	for range 12 {
		f.now = f.now.Add(claimEvery)
		for i, l := range f.leases {
			if f.down[i] {
				continue
			}
			if l.Vacant(f.now) {
				l.Take(f.now, true)
			}
			if !f.hangs[i] {
				l.reported = f.now
			}
			f.announce(i)
		}
		for len(f.queued) > 0 {
			f.deliver(0, false)
		}
	}
}

func (f *fleet) holders() (out []int) {
	for i, l := range f.leases {
		if l.Held() && !f.down[i] {
			out = append(out, i)
		}
	}
	return out
}

// TestOneReplicaHolds checks that one replica holds the lease once messages arrive again, whatever
// happened before.
func TestOneReplicaHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		f := newFleet(2 + r.IntN(7))
		for range 200 {
			i := r.IntN(len(f.leases))
			switch r.IntN(8) {
			case 0:
				f.now = f.now.Add(time.Duration(r.Int64N(int64(2 * claimEvery))))
			case 1:
				if !f.down[i] && f.leases[i].Take(f.now, true) {
					f.announce(i)
				}
			case 2:
				f.announce(i)
			case 3:
				f.release(i)
			case 4:
				f.leases[i].Report(f.now, r.IntN(2) == 0, r.IntN(2) == 0)
			case 5:
				f.down[i] = !f.down[i]
			default:
				if len(f.queued) > 0 {
					f.deliver(r.IntN(len(f.queued)), r.IntN(3) == 0)
				}
			}
		}
		for i := range f.leases {
			f.down[i] = false
			f.leases[i].Report(f.now, false, false)
		}
		f.converge()
		holders := f.holders()
		if len(holders) != 1 {
			t.Fatalf("seed %d: %v hold the lease", seed, holders)
		}
		for i, l := range f.leases {
			if holder, _, _ := l.Holder(f.now); holder != f.leases[holders[0]].self {
				t.Fatalf("seed %d: replica %d takes %q for the holder, which is %d", seed, i, holder, holders[0])
			}
		}
	}
}

// TestALeaseIsTakenOver checks that another replica takes over from one that is stopped, hangs or
// fails, and keeps the lease when that one recovers.
func TestALeaseIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(f *fleet, on bool){
		"stopped": func(f *fleet, on bool) { f.down[0] = on },
		"hanging": func(f *fleet, on bool) { f.hangs[0] = on },
		"failing": func(f *fleet, on bool) { f.leases[0].Report(f.now, false, on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(3)
			f.leases[0].Take(f.now, true)
			f.converge()
			if h := f.holders(); len(h) != 1 || h[0] != 0 {
				t.Fatalf("%v hold the lease", h)
			}
			fail(f, true)
			f.converge()
			fail(f, false)
			f.converge()
			if h := f.holders(); len(h) != 1 || h[0] == 0 {
				t.Errorf("%v hold the lease", h)
			}
		})
	}
}

// TestAFailingReplicaGoesOnAlone checks that a failing holder keeps the lease if no other replica
// takes it.
func TestAFailingReplicaGoesOnAlone(t *testing.T) {
	t.Parallel()
	f := newFleet(2)
	f.down[1] = true
	f.leases[0].Take(f.now, true)
	f.leases[0].Report(f.now, true, true)
	f.converge()
	if !f.leases[0].Held() {
		t.Error("no replica holds the lease")
	}
	if c, ok := f.leases[0].claim(f.now); !ok || !c.Failing {
		t.Errorf("it says %+v (%t)", c, ok)
	}
}

// TestHolderReportsItsFlag checks that Holder returns the flag on all replicas while the claim is
// valid.
func TestHolderReportsItsFlag(t *testing.T) {
	t.Parallel()
	f := newFleet(2)
	expect := func(replica int, holder string, flag bool) {
		t.Helper()
		h, got, held := f.leases[replica].Holder(f.now)
		if h != holder || got != flag || held != (holder != "") || held == f.leases[replica].Vacant(f.now) {
			t.Errorf("replica %d: %q holds the lease (%v) with the flag %v; want %q with %v", replica, h, held, got, holder, flag)
		}
	}
	expect(0, "", false)
	f.leases[0].Take(f.now, true)
	f.announce(0)
	f.deliver(0, false)
	expect(0, "r00", true)
	expect(1, "r00", true)
	if !f.leases[0].Report(f.now, false, false) || f.leases[0].Report(f.now, false, false) {
		t.Error("the flag is news once")
	}
	expect(0, "r00", false)
	expect(1, "r00", true)
	f.announce(0)
	f.deliver(0, false)
	expect(1, "r00", false)
	f.now = f.now.Add(leaseFor)
	expect(0, "r00", false)
	expect(1, "", false)
	if !f.leases[1].Expire(f.now) || f.leases[1].Expire(f.now) {
		t.Error("a claim is over once")
	}
	f.leases[0].Release()
	expect(0, "", false)
}
