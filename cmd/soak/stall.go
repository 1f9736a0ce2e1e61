package main

import (
	"context"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	// stallTick is the interval of the harness's clock check. stallOver is the delay that counts as
	// a stall, equal to the checker's clock tolerance.
	stallTick = 20 * time.Millisecond
	stallOver = clockSkew
)

// stalls records when the harness itself was not scheduled. An overloaded or suspended machine
// affects all processes as SIGSTOP would.
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
