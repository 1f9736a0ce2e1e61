package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// storm performs the faults and records them.
type storm struct {
	fleet    *fleet
	up       *upstreams
	load     *load.Load
	recorder *load.Recorder
	seed     uint64

	mu     sync.Mutex
	faults []check.Fault
	wrong  []check.Violation // violations found while performing steps
	starts int               // failed starts that were retried
	bursts int               // number of bursts so far
}

// healTimeout limits the recovery of the broker.
const healTimeout = 90 * time.Second

// run performs the steps of a plan until ctx ends. An error means that the harness cannot continue.
func (s *storm) run(ctx context.Context, p plan) error {
	for i := 0; i < len(p) && ctx.Err() == nil; i++ {
		progressf("%s", p[i])
		if err := s.do(ctx, p[i]); err != nil {
			return fmt.Errorf("%s: %w", p[i], err)
		}
	}
	return nil
}

func (s *storm) do(ctx context.Context, at step) error {
	switch at.Action {
	case kill:
		return s.kill(ctx, at.Target, at.For)
	case killAll:
		return s.killAll(ctx, at.For)
	case replace, replaceKill:
		return s.replace(ctx, at)
	case rolling:
		return s.rolling(ctx, at.For)
	case stopReplica:
		return s.stop(ctx, at.Target, at.For)
	case aimKill, aimStop, aimHold:
		return s.aim(ctx, at)
	case cutReplica:
		return s.cutReplica(ctx, at.Target, at.For)
	case nodeKill, nodeStop, isolate, isolateTwo, cutClients:
		return s.node(ctx, at)
	case nodeAndKill:
		var both errgroup.Group
		both.Go(func() error { return s.node(ctx, step{Action: nodeKill, Target: at.Target, For: at.For}) })
		both.Go(func() error { return s.kill(ctx, at.Target%len(s.fleet.replicas), at.For/2) })
		return both.Wait()
	case pauseRoute:
		return s.pauseRoute(ctx, served[at.Target%len(served)], at.For)
	case foreignAck:
		return s.foreignAck(ctx)
	case large:
		return s.burst(ctx, load.Large, largeBurst)
	case duplicates:
		return s.burst(ctx, load.Duplicates, duplicateBurst)
	case fill:
		return s.fill(ctx)
	case cancelKill:
		return s.cancelKill(ctx, at.Target, at.For)
	case failing:
		return s.failing(ctx, at.For)
	case fullDisk:
		return s.fullDisk(ctx, at.For)
	case garbage:
		return s.garbage(ctx)
	case durable:
		return s.remove(ctx, durables[at.Target])
	case stream:
		return s.removeStream(ctx, streams[at.Target])
	case clock:
		return s.skew(ctx, at.Target, at.By, at.For)
	case routes:
		return s.drainRoute(ctx, served[at.Target%len(served)], at.For)
	case routesNode:
		var both errgroup.Group
		both.Go(func() error { return s.node(ctx, step{Action: isolate, Target: at.Target, For: at.For}) })
		both.Go(func() error { return s.drainRoute(ctx, served[at.Target%len(served)], at.For/2) })
		return both.Wait()
	case changeMix:
		return s.mix(at.Mix)
	default:
		faultinject.Pause(ctx, at.For)
		return nil
	}
}

// begin records a fault. The returned function records its end.
func (s *storm) begin(f check.Fault) (end func()) {
	f.From = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, f)
	at := len(s.faults) - 1
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults[at].To = time.Now()
	}
}

// broke records a violation that no fault excuses.
func (s *storm) broke(rule, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, check.Violation{Rule: rule, Text: fmt.Sprintf(format, args...)})
}

// done returns the faults and violations. A fault without an end ends now.
func (s *storm) done() ([]check.Fault, []check.Violation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.faults)
	slices.SortStableFunc(out, func(a, b check.Fault) int { return a.From.Compare(b.From) })
	for i := range out {
		if out[i].To.IsZero() {
			out[i].To = time.Now()
		}
	}
	return out, slices.Clone(s.wrong)
}

func (s *storm) mix(name string) error {
	s.begin(check.Fault{Kind: check.FaultMix, Target: name})()
	return s.up.setMix(name)
}

// replicaFault returns a fault of a replica, which includes its embedded broker.
func (s *storm) replicaFault(kind check.FaultKind, i int) check.Fault {
	embedded := s.fleet.nodes == nil
	return check.Fault{
		Kind: kind, Target: s.fleet.replicas[i].Name, Broker: embedded,
		Wipes: embedded && kind != check.FaultStop,
	}
}

func (s *storm) kill(ctx context.Context, i int, away time.Duration) error {
	return s.killAt(ctx, i, away, aimed{})
}

func (s *storm) killAt(ctx context.Context, i int, away time.Duration, a aimed) error {
	r, f := s.fleet.replicas[i], s.replicaFault(check.FaultKill, i)
	f.At = a.at
	defer s.begin(f)()
	r.setDown(true)
	err := r.process.Kill()
	a.done() // the next process needs its links
	if err != nil {
		return err
	}
	faultinject.Pause(ctx, away)
	return s.restart(ctx, r)
}

// restart starts a replica, with retries like a supervisor. It heals even after ctx has ended.
func (s *storm) restart(ctx context.Context, r *replica) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	for {
		err := r.process.Restart(ctx)
		if err == nil {
			r.setDown(false)
			return nil
		}
		if !faultinject.Pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("restart %s: %w", r.Name, err)
		}
		s.mu.Lock()
		s.starts++
		s.mu.Unlock()
	}
}

func (s *storm) failedStarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts
}

func (s *storm) killAll(ctx context.Context, away time.Duration) error {
	var all errgroup.Group
	for i := range s.fleet.replicas {
		all.Go(func() error { return s.kill(ctx, i, away) })
	}
	return all.Wait()
}

// rolling restarts each replica cleanly, one at a time, like a deployment.
func (s *storm) rolling(ctx context.Context, away time.Duration) error {
	for i := range s.fleet.replicas {
		if err := s.terminate(ctx, i, away); err != nil {
			return err
		}
	}
	return nil
}

func (s *storm) terminate(ctx context.Context, i int, away time.Duration) error {
	r := s.fleet.replicas[i]
	defer s.begin(s.replicaFault(check.FaultTerminate, i))()
	r.setDown(true)
	begin := time.Now()
	if err := r.process.Terminate(); err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*stopGrace)
	defer cancel()
	if err := r.process.Wait(wait); err != nil && !r.ranOutOfGrace() {
		s.broke("clean-stop", "%s did not stop cleanly: %v (after %s)", r.Name, err, time.Since(begin).Round(time.Millisecond))
	}
	faultinject.Pause(ctx, away)
	return s.restart(ctx, r)
}

func (s *storm) stop(ctx context.Context, i int, d time.Duration) error {
	return s.stopAt(ctx, i, d, aimed{})
}

func (s *storm) stopAt(ctx context.Context, i int, d time.Duration, a aimed) error {
	r, f := s.fleet.replicas[i], s.replicaFault(check.FaultStop, i)
	f.At = a.at
	defer s.begin(f)()
	err := r.process.Stop()
	a.done() // the answers are waiting when the process continues
	if err != nil {
		return err
	}
	faultinject.Pause(ctx, d)
	return r.process.Continue()
}

func (s *storm) cutReplica(ctx context.Context, i int, d time.Duration) error {
	r := s.fleet.replicas[i]
	end := s.begin(check.Fault{Kind: check.FaultCutReplica, Target: r.Name, Broker: true})
	defer end()
	for _, l := range r.links {
		l.Cut(faultinject.Blackhole)
	}
	faultinject.Pause(ctx, d)
	for _, l := range r.links {
		l.Heal()
	}
	return nil
}

// heal ends all remaining faults of a run that was cut short.
func (s *storm) heal(ctx context.Context) error {
	if err := s.mix("calm"); err != nil {
		return err
	}
	for _, r := range s.fleet.replicas {
		for _, l := range r.links {
			l.Heal()
			l.ReleaseAnswers()
		}
		if err := errors.Join(r.process.Continue(), r.setClock(0)); err != nil {
			return err
		}
	}
	if s.fleet.nodes == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healTimeout)
	defer cancel()
	return s.fleet.nodes.WaitHealthy(ctx)
}
