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

// cancelKill has clients cancel jobs whose creates are answered late, or not at all, while a replica
// dies. Whatever the upstream has then is known, or has a dead letter (check.paidRecorded).
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

// mostInFlight is how many creates of a replica may be on their way to an upstream when its first one
// fails.
const mostInFlight = 10

// failing has the first of two upstreams fail all creates, which it accepts. After the first one
// and those that were on their way, one tries it at the end of each wait, which doubles.
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
	lost, most := 0, 1+mostInFlight*len(s.fleet.replicas)
	for _, p := range s.up.frail.Ledger() {
		if p.Op == faultinject.OpCreate && p.Time.After(begin) {
			lost++
		}
	}
	for wait := openFor; wait < time.Since(begin); wait *= 2 {
		most++
	}
	if lost > most {
		s.broke("failing", "an upstream that failed all creates for %s had %d of them, although another one was well; want %d at most", long, lost, most)
	}
	return s.mix("usual")
}
