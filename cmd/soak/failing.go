package main

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// cancelBurst is how many jobs are cancelled at once.
const cancelBurst = 60

// cancelKill cancels jobs while the answers to their creates are late or lost, and kills a replica.
// check.paidRecorded requires every paid task to be in the log or in a dead letter.
func (s *storm) cancelKill(ctx context.Context, target int, away time.Duration) error {
	if err := s.mix("losing"); err != nil {
		return err
	}
	var both errgroup.Group
	both.Go(func() error { return s.burst(ctx, load.Cancelled, cancelBurst) })
	both.Go(func() error {
		faultinject.Pause(ctx, 500*time.Millisecond)
		return s.kill(ctx, target, away)
	})
	return errors.Join(both.Wait(), s.mix("usual"))
}

// maxInFlight limits the number of a replica's creates that are in flight when the first one fails.
const maxInFlight = 10

// failing makes the first of two upstreams accept all creates and answer 500. After the creates in
// flight, it may get only one trial per wait, and the wait doubles each time.
func (s *storm) failing(ctx context.Context, long time.Duration) error {
	if err := s.mix("calm"); err != nil {
		return err
	}
	begin := time.Now()
	if err := s.up.frail.SetMix(faultinject.Mix{faultinject.OpCreate: {faultinject.InternalAfter: 1}}); err != nil {
		return err
	}
	s.begin(check.Fault{Kind: check.FaultMix, Target: "failing"})()
	faultinject.Pause(ctx, long)
	lost, most := 0, 1+maxInFlight*len(s.fleet.replicas)
	for _, p := range s.up.frail.Ledger() {
		if p.Op == faultinject.OpCreate && p.Time.After(begin) {
			lost++
		}
	}
	for wait := openFor; wait < time.Since(begin); wait *= 2 {
		most++
	}
	if lost > most {
		s.broke("failing", "a failing upstream got %d creates in %s next to a healthy one; want at most %d", lost, long, most)
	}
	return s.mix("usual")
}
