package pool

import (
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// probePatience is the minimum time that a probe gets before another job may try.
const probePatience = 5 * time.Second

// Slot is a job's claim on a key, from Acquire until Release. It is safe for concurrent use.
type Slot struct {
	pool    *Pool
	id      UpstreamKey
	service *service // nil if not configured
	key     *key     // nil if not configured
	began   time.Time

	// The fields below are guarded by Pool.mu.
	done     func(error) // reports the call to the breaker; nil once reported
	trial    bool        // the create is a trial (createBreaker)
	created  bool        // the first create has been reported
	probe    bool        // the call decides whether the breaker closes
	patience *time.Timer // lets others try if the probe is slow; nil without a probe
	released bool
}

// UpstreamKey returns the slot's key.
func (s *Slot) UpstreamKey() UpstreamKey { return s.id }

// Begun reports that the upstream has started a long response. Calling it is optional. If the call
// is a breaker's probe, other jobs do not have to wait until it ends.
func (s *Slot) Begun() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if !s.probe || s.done == nil {
		return
	}
	s.reportHealth(nil)
	if done, err := s.service.breaker.Allow(); err == nil {
		s.done = done
	}
}

// countResend counts a request that is resent within its call. The rate limit does not delay the
// resend, but it delays later jobs.
func (s *Slot) countResend() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.key != nil {
		s.key.limiter.ReserveN(time.Now(), 1)
	}
}

// Report records the outcome of a call. err is nil for a success. Report must be called once per
// call, and not for a job that was never sent. by is the chooser of the configuration whose client
// made the call, because that configuration determines which secret was used. After a reload, the
// slot may come from another chooser. job appears in the log if the upstream failed.
//
// The first report of an acquired slot concerns the job. Later reports, and all reports of a
// resumed slot, concern a task that the key may already have, such as a create that is resent. They
// apply the requested backoff, but do not count for the breaker. They reveal nothing about new
// jobs, and a success must not hide that new jobs are refused. Polls are not reported, so if the
// upstream refuses a key in a poll, the key cools down only when the next job is refused.
func (s *Slot) Report(by *Chooser, job Job, err *upstream.Error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.report(by, job, err, time.Now())
}

// ReportCreate is Report for a video create. The first create of an acquired slot also counts for
// the create breaker.
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

// report requires the pool's lock.
func (s *Slot) report(by *Chooser, job Job, err *upstream.Error, now time.Time) {
	began, again := s.began, s.done == nil
	if again {
		began = now
	}
	if s.service != nil {
		s.service.called(err, now)
		if failed(err) || err != nil && err.Unrouted() {
			s.service.noteFailure(err, job, by.route.Name, now)
		}
	}
	s.reportHealth(health(err))
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

// awaitBack schedules an update of the gauge of unusable keys at the time when this key becomes
// usable again.
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

// Release returns the slot. It may be called more than once. If no call was reported, it leaves the
// breaker unchanged.
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
	s.reportHealth(errNothing)
	s.count(-1)
}

// passOn lets another job probe the upstream because this probe is taking too long.
func (s *Slot) passOn() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.reportHealth(errNothing)
}

// reportHealth reports to the breaker, unless that was already done. It requires the pool's lock,
// like all functions below.
func (s *Slot) reportHealth(health error) {
	if s.done == nil {
		return
	}
	if s.patience != nil {
		s.patience.Stop()
	}
	s.done(health)
	s.done, s.probe = nil, false
}

func (s *Slot) count(jobs int) {
	if s.service != nil {
		s.service.metrics.AddHeld(jobs)
	}
	if s.key != nil {
		s.key.inUse += jobs
		s.key.grant()
	}
}
