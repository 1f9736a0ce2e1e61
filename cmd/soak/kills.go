package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/genbus/genbus/test/faultinject"
)

// maxUptime is the longest pause between two kills.
const maxUptime = 3 * time.Second

// kills kills replicas at random moments, with the usual upstream faults.
func (s *storm) kills(ctx context.Context, seed uint64, n int) error {
	r := rand.New(rand.NewPCG(seed, 2))
	if err := s.mix("usual"); err != nil {
		return err
	}
	for i := range n {
		if !faultinject.Pause(ctx, between(r, 0, maxUptime)) {
			return nil
		}
		if i%20 == 0 {
			progressf("kill %d of %d", i+1, n)
		}
		if err := s.kill(ctx, r.IntN(len(s.fleet.replicas)), between(r, 0, 500*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}
