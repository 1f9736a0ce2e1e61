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

// moment is a message of a job for which a replica awaits the broker's ack. Aimed faults strike
// between the message and the ack.
type moment struct {
	name string
	// text makes a link hold the broker's answers once a replica has sent this text. The newline
	// before PUB excludes HPUB.
	text string
	// pattern and is find the message if the broker is embedded and has no link.
	pattern string
	is      func(nats.Header) bool
	// backlog is the change of the backlog that causes the moment.
	backlog backlog
}

// backlog is a change of the backlog.
type backlog int

const (
	unchanged backlog = iota
	grows             // routes accept more jobs than may be ready
	shrinks           // routes with a backlog get free capacity
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
		// The dispatcher's copies have a header that marks them.
		{name: "copy", text: "HPUB " + work, pattern: names.WorkPattern(), is: func(h nats.Header) bool {
			return h.Get(subject.HeaderRecorded) != ""
		}, backlog: shrinks},
	}
}

func literal(pattern string) string { return pattern[:len(pattern)-len(">")] }

const (
	// aimPatience limits the wait for a moment.
	aimPatience = 15 * time.Second
	// lateAnswers is how long answers are held after a stopped replica continues.
	lateAnswers = time.Second
	// backlogBurst is the number of requests in a burst. It is large enough for a backlog on each
	// route.
	backlogBurst = 150
	// accepting is how long it may take to accept the last requests of a burst.
	accepting = time.Second
)

// aim breaks a replica between its message and the broker's answer. A link holds the answer in the
// meantime. With an embedded broker, the signal follows the message at once.
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

// withRoutesPaused calls do while all routes are paused. do may resume them early.
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

// strike waits for the moment and performs the step, while another goroutine calls during to
// cause the moment.
func (s *storm) strike(ctx context.Context, at step, m moment, during func() error) error {
	a, err := s.arm(s.fleet.replicas[at.Target], m)
	if err != nil {
		return err
	}
	defer a.close()
	var both errgroup.Group
	both.Go(during)
	both.Go(func() error {
		if !a.await(ctx) {
			progressf("no %s was sent", m.name)
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

// aimed names the moment of a kill or stop. release ends the hold on the answers. The zero value
// means no moment.
type aimed struct {
	at      string
	release func()
}

func (a aimed) done() {
	if a.release != nil {
		a.release()
	}
}

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
	default: // later messages do not count
	}
}

// await reports whether the moment came within aimPatience. If not, it releases the answers.
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
