package pool

import (
	"errors"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// probePatience is the least time that a probe has before another job may try.
const probePatience = 5 * time.Second

// Lease is a job's place with an account, from the moment it was chosen until
// Release. It is safe for concurrent use.
type Lease struct {
	pool    *Pool
	account Account
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

// Account says who the job goes to.
func (l *Lease) Account() Account { return l.account }

// Begun says that the upstream has begun a long answer. Nothing needs to call
// it; but when this is the one job that a breaker lets through to try the
// upstream, the others need not wait for its end.
func (l *Lease) Begun() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if !l.probe || l.done == nil {
		return
	}
	l.tell(nil)
	if done, err := l.service.breaker.Allow(); err == nil {
		l.done = done
	}
}

// countResend counts a request that is sent a second time within its call. What it takes of
// the rate is taken from later jobs: the call has its place, and waits for nothing.
func (l *Lease) countResend() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.key != nil {
		l.key.limiter.ReserveN(time.Now(), 1)
	}
}

// Report says what became of a call; nil means that it went well. It is called
// once for each call, and not for a job that was not sent. by is the chooser of the
// configuration whose client made the call: its secret is the one that was refused. A
// job that outlives a reload may have had the lease from another one. The log names the
// job where the upstream is in trouble.
//
// The first report of a lease that was acquired is about the job itself. Later ones, and
// all of a resumed lease, are about a task that the account may have already, such as a
// create that is sent again: where they fail, the key or the upstream is set aside as the
// error asks, but the breaker does not count them. They say nothing about new jobs, and
// one that goes well must not hide that those are refused. Polls are not reported: a key
// that an upstream refuses for a poll is set aside when it refuses the next job.
func (l *Lease) Report(by *Chooser, job Job, err *upstream.Error) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.report(by, job, err, time.Now())
}

// ReportCreate is Report for a video create. The first create of an acquired lease also drives the
// breaker for creates.
func (l *Lease) ReportCreate(by *Chooser, job Job, sent upstream.Submission) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	now := time.Now()
	l.report(by, job, sent.Err, now)
	if l.service != nil && !l.created && !l.began.IsZero() {
		l.service.creates.report(sent, l.trial, l.began, now)
	}
	l.created, l.trial = true, false
}

// report needs the pool's lock.
func (l *Lease) report(by *Chooser, job Job, err *upstream.Error, now time.Time) {
	began, again := l.began, l.done == nil
	if again {
		began = now
	}
	if l.service != nil {
		l.service.called(err, now)
		if errors.Is(health(err), errTrouble) {
			l.service.notice(err, job, by.route.Name, now)
		}
	}
	l.tell(health(err))
	if l.service == nil || again && err == nil {
		return
	}
	l.service.applyBackoff(err, now)
	if l.key == nil {
		return
	}
	l.key.applyBackoff(err, by.generation, began, now)
	l.service.countOut(now)
	l.awaitBack(now)
}

// awaitBack has the gauge set when the key is no longer out.
func (l *Lease) awaitBack(now time.Time) {
	k := l.key
	switch out := k.outUntil().Sub(now); {
	case out <= 0:
	case k.back == nil:
		k.back = time.AfterFunc(out, func() { l.pool.refresh(k.service) })
	default:
		k.back.Reset(out)
	}
}

// Release gives the place back. It may be called again, and before any report:
// then nothing was learned of the upstream.
func (l *Lease) Release() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	if l.released {
		return
	}
	l.released = true
	if l.trial {
		l.service.creates.unsent(time.Now())
	}
	l.tell(errNothing)
	l.count(-1)
}

// passOn lets another job try the upstream where this one has not said anything
// for as long as the breaker is open.
func (l *Lease) passOn() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.tell(errNothing)
}

// tell reports to the breaker, once. The caller holds the pool's mutex, as for
// all that follow.
func (l *Lease) tell(health error) {
	if l.done == nil {
		return
	}
	if l.patience != nil {
		l.patience.Stop()
	}
	l.done(health)
	l.done, l.probe = nil, false
}

// count adds to the jobs in hand.
func (l *Lease) count(jobs int) {
	if l.service != nil {
		l.service.metrics.AddInHand(jobs)
	}
	if l.key != nil {
		l.key.inHand += jobs
		l.key.grant()
	}
}
