package jobindex

import (
	"slices"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/fleet"
)

// TestASlowKeeperThatStopsIsAsked checks that a stopping keeper is asked after the others until it
// does not answer.
func TestASlowKeeperThatStopsIsAsked(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &peers{
		self: "self", leases: map[string]*fleet.Lease{"0": fleet.NewLease("self"), "1": fleet.NewLease("self")},
		had: map[string]time.Time{"slow": now.Add(-2 * time.Second), "other": now.Add(-3 * time.Second)}, avoided: map[string]time.Time{},
	}
	if asked := p.ready(now); !slices.Equal(asked, []string{"slow", "other"}) {
		t.Errorf("%v are asked", asked)
	}
	if p.avoid("slow", now); !slices.Equal(p.ready(now), []string{"other", "slow"}) {
		t.Errorf("one was slow, and %v are asked", p.ready(now))
	}
	if p.failed("other", now); !slices.Equal(p.ready(now), []string{"slow"}) {
		t.Errorf("the other one has not answered, and %v are asked", p.ready(now))
	}
}
