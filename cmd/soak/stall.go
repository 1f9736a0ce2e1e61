package main

import (
	"context"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	// stallTick is how often the harness looks at the clock, and stallOver how late it
	// must be for a stall: as much as clocks may differ by for the checker.
	stallTick = 20 * time.Millisecond
	stallOver = clockSkew
)

// stalls notes when the harness itself got no processor. A machine that is too busy, or
// is stopped by its host, does to all processes what SIGSTOP does to one.
func (s *storm) stalls(ctx context.Context) {
	for last := time.Now(); faultinject.Pause(ctx, stallTick); last = time.Now() {
		if now := time.Now(); now.Sub(last) > stallTick+stallOver {
			s.stalled(last, now)
		}
	}
}

func (s *storm) stalled(from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, check.Fault{Kind: check.FaultStall, From: from, To: to, Broker: true})
}
