package pool

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// probePatience is the least time that a probe has before another job may try.
const probePatience = 5 * time.Second

// Slot is a job's place with a key, from the moment it was chosen until
// Release. It is safe for concurrent use.
type Slot struct {
	pool    *Pool
	id      UpstreamKey
	service *service // nil when the configuration does not have it
	key     *key     // the same
	began   time.Time

	// The pool's mutex guards what follows.
	done     func(error) // tells the breaker about the call that it let through; nil once told
	trial    bool        // the create is a trial (createBreaker)
	created  bool        // the first create was reported
	probe    bool        // that call shows whether the upstream is well again
	patience *time.Timer // of those who wait for the probe; nil without one
	released bool
}

// UpstreamKey returns the key that the job goes to.
func (s *Slot) UpstreamKey() UpstreamKey { return s.id }

// Begun says that the upstream has begun a long answer. Nothing needs to call
// it; but when this is the one job that a breaker lets through to try the
// upstream, the others need not wait for its end.
func (s *Slot) Begun() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.probe || s.done == nil {
		return
	}
	s.tell(nil)
	if done, err := s.service.breaker.Allow(); err == nil {
		s.done = done
	}
}

// countResend counts a request that is sent a second time within its call. What it takes of
// the rate is taken from later jobs: the call has its place, and waits for nothing.
func (s *Slot) countResend() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.key != nil {
		s.key.limiter.ReserveN(time.Now(), 1)
	}
}

// Report says what became of a call; nil means that it went well. It is called
// once for each call, and not for a job that was not sent. by is the chooser of the
// configuration whose client made the call: its secret is the one that was refused. A
// job that outlives a reload may have had the slot from another one. The log names the
// job where the upstream is in trouble.
//
// The first report of a slot that was acquired is about the job itself. Later ones, and
// all of a resumed slot, are about a task that the key may have already, such as a
// create that is sent again: where they fail, the key or the upstream is set aside as the
// error asks, but the breaker does not count them. They say nothing about new jobs, and
// one that goes well must not hide that those are refused. Polls are not reported: a key
// that an upstream refuses for a poll is set aside when it refuses the next job.
func (s *Slot) Report(by *Chooser, job Job, err *upstream.Error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.report(by, job, err, time.Now())
}

// ReportCreate is Report for a video create. The first create of an acquired slot also drives the
// breaker for creates.
func (s *Slot) ReportCreate(by *Chooser, job Job, sent upstream.Submission) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	now := time.Now()
	s.report(by, job, sent.Err, now)
	if s.service != nil && !s.created && !s.began.IsZero() {
		s.service.creates.report(sent, s.trial, s.began, now)
	}
	s.created, s.trial = true, false
}

// report needs the pool's lock.
func (s *Slot) report(by *Chooser, job Job, err *upstream.Error, now time.Time) {
	began, again := s.began, s.done == nil
	if again {
		began = now
	}
	if s.service != nil {
		s.service.called(err, now)
		if errors.Is(health(err), errTrouble) {
			s.service.noteFailure(err, job, by.route.Name, now)
		}
	}
	s.tell(health(err))
	if s.service == nil || again && err == nil {
		return
	}
	s.service.applyBackoff(err, now)
	if s.key == nil {
		return
	}
	s.key.applyBackoff(err, by.generation, began, now)
	s.service.countOut(now)
	s.awaitBack(now)
}

// awaitBack has the gauge set when the key is no longer out.
func (s *Slot) awaitBack(now time.Time) {
	k := s.key
	switch out := k.outUntil().Sub(now); {
	case out <= 0:
	case k.back == nil:
		k.back = time.AfterFunc(out, func() { s.pool.refresh(k.service) })
	default:
		k.back.Reset(out)
	}
}

// Release gives the place back. It may be called again, and before any report:
// then nothing was learned of the upstream.
func (s *Slot) Release() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if s.trial {
		s.service.creates.unsent(time.Now())
	}
	s.tell(errNothing)
	s.count(-1)
}

// passOn lets another job try the upstream where this one has not said anything
// for as long as the breaker is open.
func (s *Slot) passOn() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.tell(errNothing)
}

// tell reports to the breaker, once. The caller holds the pool's mutex, as for
// all that follow.
func (s *Slot) tell(health error) {
	if s.done == nil {
		return
	}
	if s.patience != nil {
		s.patience.Stop()
	}
	s.done(health)
	s.done, s.probe = nil, false
}

// count adds to the jobs in hand.
func (s *Slot) count(jobs int) {
	if s.service != nil {
		s.service.metrics.AddInHand(jobs)
	}
	if s.key != nil {
		s.key.inHand += jobs
		s.key.grant()
	}
}
