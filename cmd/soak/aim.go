package main

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// moment is a step of a job that a replica waits for the broker to confirm: a fault is
// aimed between its message and the confirmation.
type moment struct {
	name string
	// text begins to hold the broker's answers once a replica has sent it. The newline is
	// the end of what was sent before: HPUB, which has headers, ends in PUB too.
	text string
	// pattern and is find the message where the broker is embedded, and there is no link.
	pattern string
	is      func(nats.Header) bool
	// backlog says what the moment needs of the backlog.
	backlog backlog
}

// backlog is what has to happen to the backlog at a moment.
type backlog int

const (
	unchanged backlog = iota
	grows             // more jobs are accepted than may be ready
	shrinks           // there is one, and routes have room again
)

var moments = momentsOf(subject.Default())

func momentsOf(names subject.Space) []moment {
	plain := func(h nats.Header) bool { return len(h) == 0 }
	work, wait := literal(names.WorkPattern()), literal(names.WaitPattern())
	return []moment{
		{name: "item", text: "\nPUB " + work, pattern: names.WorkPattern(), is: plain},
		{name: "waiting item", text: "\nPUB " + wait, pattern: names.WaitPattern(), is: plain, backlog: grows},
		{name: "first event", text: subject.HeaderVersion + ": 1\r\n", pattern: names.TaskPattern(), is: func(h nats.Header) bool {
			return h.Get(subject.HeaderVersion) == "1"
		}},
		// The dispatcher marks its copies, so that they have headers.
		{name: "copy", text: "HPUB " + work, pattern: names.WorkPattern(), is: func(h nats.Header) bool {
			return h.Get(subject.HeaderRecorded) != ""
		}, backlog: shrinks},
	}
}

// literal is a pattern without its wildcard.
func literal(pattern string) string { return pattern[:len(pattern)-len(">")] }

const (
	// aimPatience is how long a moment is waited for.
	aimPatience = 15 * time.Second
	// lateAnswers is how long answers stay away from a replica that was stopped and goes on.
	lateAnswers = time.Second
	// backlogBurst is how many jobs are wished for so that some of each route wait.
	backlogBurst = 150
	// accepting is how long the last of a burst may take to be accepted.
	accepting = time.Second
)

// aim breaks a replica between a message of it and the broker's answer. With an embedded
// broker the signal follows the message at once; otherwise the answer is held meanwhile.
func (s *storm) aim(ctx context.Context, at step) error {
	m := moments[at.Moment]
	if m.backlog == unchanged {
		return s.strike(ctx, at, m, func() error { return nil })
	}
	return s.withRoutesPaused(ctx, func(resume func() error) error {
		fill := func() error { return s.burst(ctx, load.Plain, backlogBurst) }
		if m.backlog == grows {
			return s.strike(ctx, at, m, fill)
		}
		if err := fill(); err != nil {
			return err
		}
		faultinject.Pause(ctx, accepting)
		return s.strike(ctx, at, m, resume)
	})
}

// withRoutesPaused does something while an operator has paused all routes, or until it
// resumes them itself.
func (s *storm) withRoutesPaused(ctx context.Context, do func(resume func() error) error) error {
	var ends []func()
	resumed := false
	resume := func() error {
		if resumed {
			return nil
		}
		resumed = true
		var all errgroup.Group
		for i, r := range served[:len(ends)] {
			all.Go(func() error {
				defer ends[i]()
				return s.setPaused(ctx, r, false)
			})
		}
		return all.Wait()
	}
	for _, r := range served {
		ends = append(ends, s.begin(check.Fault{Kind: check.FaultPause, Target: r.name}))
		if err := s.setPaused(ctx, r, true); err != nil {
			return err
		}
	}
	if err := do(resume); err != nil {
		return err
	}
	return resume()
}

// strike waits for the moment, and does what the step says. Meanwhile it does what brings
// the moment about.
func (s *storm) strike(ctx context.Context, at step, m moment, meanwhile func() error) error {
	a, err := s.arm(s.fleet.replicas[at.Target], m)
	if err != nil {
		return err
	}
	defer a.close()
	var both errgroup.Group
	both.Go(meanwhile)
	both.Go(func() error {
		if !a.await(ctx) {
			say("no %s was sent", m.name)
			return nil
		}
		end := func() {}
		if len(a.links) > 0 {
			end = s.begin(check.Fault{Kind: check.FaultHold, Target: s.fleet.replicas[at.Target].Name, Broker: true, At: m.name})
			faultinject.Pause(ctx, at.After)
		}
		return s.hit(ctx, at, aimed{at: m.name, release: func() { a.release(); end() }})
	})
	return both.Wait()
}

// aimed says at what a kill or a stop was aimed, and ends the hold; zero: at nothing.
type aimed struct {
	at      string
	release func()
}

func (a aimed) done() {
	if a.release != nil {
		a.release()
	}
}

// hit does what an aimed step does to its replica.
func (s *storm) hit(ctx context.Context, at step, a aimed) error {
	switch at.Action {
	case aimKill:
		return s.killAt(ctx, at.Target, at.For, a)
	case aimStop:
		if !at.Late {
			return s.stopAt(ctx, at.Target, at.For, a)
		}
		err := s.stopAt(ctx, at.Target, at.For, aimed{at: a.at})
		faultinject.Pause(ctx, lateAnswers)
		a.done()
		return err
	default:
		faultinject.Pause(ctx, at.For)
		a.done()
		return nil
	}
}

// ambush waits for a moment of one replica.
type ambush struct {
	links []*faultinject.Link
	seen  chan struct{}
	over  chan struct{} // closed at the end
	watch *reader       // of an embedded broker
}

// arm begins to wait for a moment of a replica.
func (s *storm) arm(r *replica, m moment) (*ambush, error) {
	a := &ambush{links: r.links, seen: make(chan struct{}, 1), over: make(chan struct{})}
	if len(r.links) == 0 {
		return a, a.subscribe(s.fleet.nats, m)
	}
	for _, l := range r.links {
		held := l.HoldAnswers([]byte(m.text))
		go func() {
			select {
			case <-held:
				a.sees()
			case <-a.over:
			}
		}()
	}
	return a, nil
}

func (a *ambush) subscribe(urls string, m moment) (err error) {
	if a.watch, err = newReader(urls); err != nil {
		return err
	}
	_, err = a.watch.nc.Subscribe(m.pattern, func(msg *nats.Msg) {
		if m.is(msg.Header) {
			a.sees()
		}
	})
	if err == nil {
		err = a.watch.nc.FlushTimeout(aimPatience)
	}
	if err != nil {
		a.watch.close()
	}
	return err
}

func (a *ambush) sees() {
	select {
	case a.seen <- struct{}{}:
	default: // the first one counts
	}
}

// await reports whether the moment has come. One that has not is not waited for any more.
func (a *ambush) await(ctx context.Context) bool {
	timer := time.NewTimer(aimPatience)
	defer timer.Stop()
	select {
	case <-a.seen:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	a.release()
	return false
}

// release delivers the answers that are held.
func (a *ambush) release() {
	for _, l := range a.links {
		l.ReleaseAnswers()
	}
}

func (a *ambush) close() {
	close(a.over)
	a.release()
	if a.watch != nil {
		a.watch.close()
	}
}
