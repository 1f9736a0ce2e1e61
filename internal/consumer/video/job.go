package video

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// job schedules the steps of one held video. Steps run one at a time. The busy field is set while a
// goroutine runs steps. A kick during that time sets the again field.
type job struct {
	runner    *Runner
	held      *hold.Job
	release   func()
	interrupt interrupter // interrupts the current copy
	// failing describes failing polls to operators, because events do not record them. It is nil
	// after a successful poll. The value that it points to is immutable.
	failing atomic.Pointer[genbusv1.HeldJob]

	mu        sync.Mutex
	busy      bool
	again     bool
	returning bool        // return the message after the current step
	timer     *time.Timer // starts the next step, if not busy
	wake      time.Time   // time of the next step
	stale     bool        // read the log before the next step
	awaiting  bool        // waiting for a slot for the next poll
	resolved  bool        // the message is being settled; no further step runs

	// The goroutine that has set busy or resolved owns the fields below.
	*steps  // nil while the job rests
	resting resting
}

// steps is the state that a job's steps share.
type steps struct {
	task      heldTask
	submit    submission
	polling   polling
	archiving archiving
}

// resting is the state that a job keeps between two polls in addition to its log. It is small
// because nearly all held jobs are waiting for their next poll.
type resting struct {
	slot     *pool.Slot
	polls    int
	last     telemetry.PollOutcome
	failures int
	failed   error
	missing  time.Time
}

// Take starts work on a delivered job. It calls release when the job no longer needs its slot.
func (r *Runner) Take(d hold.Delivery, item *genbusv1.WorkItem, release func()) {
	j := r.newJob(r.shared.Holder.NewJob(item, d, r.metrics), release)
	if !r.shared.Holder.Add(j) {
		release()
		return
	}
	j.kick()
}

func (r *Runner) newJob(held *hold.Job, release func()) *job {
	j := &job{runner: r, held: held, release: release}
	j.rouse()
	return j
}

// rouse rebuilds the state that the steps share, unless the job already has it.
func (j *job) rouse() {
	if j.steps != nil {
		return
	}
	s := &steps{task: heldTask{runner: j.runner, held: j.held, pollAt: j.wake}}
	s.submit.task = &s.task
	s.archiving.task, s.archiving.interrupt = &s.task, &j.interrupt
	s.polling.task, s.polling.archiving, s.polling.failing = &s.task, &s.archiving, &j.failing
	s.polling.polls, s.polling.last = j.resting.polls, j.resting.last
	s.polling.failures, s.polling.failed, s.polling.missing = j.resting.failures, j.resting.failed, j.resting.missing
	s.task.assigned.waiter, s.task.assigned.slot = pool.NewWaiter(j.kick), j.resting.slot
	j.steps, j.resting = s, resting{}
}

// rest drops the state that the steps share if the job only waits until at for its next poll.
func (j *job) rest(at time.Time) {
	if !j.polling.mayRest() || !at.Equal(j.task.pollAt) {
		return
	}
	j.submit.releaseReserved()
	p := &j.polling
	j.resting = resting{slot: j.task.assigned.slot, polls: p.polls, last: p.last, failures: p.failures, failed: p.failed, missing: p.missing}
	j.steps = nil
	j.held.Pack()
}

// kick starts the next step now, or after the current step if one is running.
func (j *job) kick() {
	if j.begin() {
		go j.work(false)
	}
}

// begin reports whether the caller must now work on the job. If so, begin has added that work to
// Jobs.
func (j *job) begin() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.resolved:
		return false
	case j.busy:
		j.again = true
		return false
	}
	j.busy = true
	if j.timer != nil {
		j.timer.Stop()
	}
	j.runner.shared.Holder.Jobs.Add(1)
	return true
}

// work runs steps until the job waits or its message can be settled. slot is true if the first step
// already has a poll slot.
func (j *job) work(slot bool) {
	defer j.runner.shared.Holder.Jobs.Done()
	j.rouse()
	j.task.slot = slot
	for {
		outcome := j.held.Conclude(j.step(), j.finish)
		if hold.Waits(outcome) && j.held.Suspect() && !j.task.unasked {
			outcome = j.held.Conclude(j.held.ResetPoisonCount(outcome), j.finish)
		}
		j.task.releaseSlot() // in case the step did not poll
		if !j.continues(outcome) {
			return
		}
	}
}

// continues applies an outcome and reports whether to run another step immediately.
func (j *job) continues(outcome error) bool {
	j.mu.Lock()
	wait, waits := errors.AsType[*hold.WaitError](outcome)
	if waits && j.returning {
		outcome, waits = hold.Return(), false // the process is stopping
	}
	if waits && j.again {
		j.again = false
		j.mu.Unlock()
		return true
	}
	j.busy = false
	if waits {
		j.rest(wait.Until)
		j.sleepUntil(wait.Until)
		j.mu.Unlock()
		return false
	}
	j.resolved = true
	j.mu.Unlock()
	j.close(outcome)
	return false
}

// sleepUntil schedules the next step. It reuses the timer, because many jobs wake every few
// seconds. The caller must hold mu.
func (j *job) sleepUntil(at time.Time) {
	j.wake = at
	if j.timer != nil {
		j.timer.Reset(time.Until(at))
		return
	}
	j.timer = time.AfterFunc(time.Until(at), j.wakeUp)
}

// wakeUp runs the next step. A resting job stays at rest until it has a poll slot, because a great
// many polls may be due at once.
func (j *job) wakeUp() {
	j.mu.Lock()
	awaiting := j.awaiting
	rests := !j.busy && !j.resolved && j.steps == nil
	j.awaiting = awaiting || rests
	j.mu.Unlock()
	switch {
	case !rests:
		if j.begin() {
			j.work(false) // use the timer's goroutine
		}
	case awaiting:
	case !j.runner.polls.acquire(j.granted):
	case j.beginPoll():
		j.work(true)
	default:
		j.runner.polls.release()
	}
}

// granted is called when a resting job has been given a poll slot. It returns false if the job no
// longer needs the slot.
func (j *job) granted() bool {
	if !j.beginPoll() {
		return false
	}
	go j.work(true)
	return true
}

// beginPoll ends the job's wait for a poll slot and calls begin.
func (j *job) beginPoll() bool {
	j.mu.Lock()
	j.awaiting = false
	j.mu.Unlock()
	return j.begin()
}

func (j *job) close(outcome error) {
	j.rouse()
	j.task.assigned.release()
	j.submit.releaseReserved()
	j.held.Release(outcome, j.polling.polls)
	j.release()
	if errors.Is(outcome, hold.ErrNotOurs) {
		j.archiving.discardCopies(j.held.Message.Context())
	}
}

// Job returns the held job.
func (j *job) Job() *hold.Job { return j.held }

// Extend extends the message's AckWait.
func (j *job) Extend() { j.held.Message.Extend() }

// Confirm makes the next step reread the log. It also interrupts a running copy, because the job
// may have ended.
func (j *job) Confirm() {
	j.mu.Lock()
	j.stale = true
	j.mu.Unlock()
	j.interrupt.now()
	j.kick()
}

// Details returns details about failing polls.
func (j *job) Details() *genbusv1.HeldJob {
	if failing := j.failing.Load(); failing != nil {
		return failing
	}
	return &genbusv1.HeldJob{}
}

// HandOver returns the message to the broker, after the current step if one is running.
func (j *job) HandOver() {
	j.mu.Lock()
	j.returning = true
	if j.busy || j.resolved {
		j.mu.Unlock()
		return
	}
	if j.timer != nil {
		j.timer.Stop()
	}
	j.resolved = true
	j.mu.Unlock()
	j.close(hold.Return())
}

// takeStale reports whether the log must be reread before the next step, and clears the request to
// do so.
func (j *job) takeStale() bool {
	j.mu.Lock()
	stale := j.stale
	j.stale = false
	j.mu.Unlock()
	return j.held.Reread() || stale
}

// step runs the step for the job's current phase.
func (j *job) step() error {
	ctx := j.held.Message.Context()
	j.task.route, _ = j.runner.shared.Routes.Video(j.runner.route)
	j.task.unasked = false
	j.interrupt.step() // before the log is reread
	if j.takeStale() {
		if err := j.held.Load(ctx); err != nil {
			return err
		}
	}
	if err := j.held.CheckPoison(func(f *errcode.Error) error { return j.endPoisoned(ctx, f) }); err != nil {
		return err
	}
	switch phase := j.held.Record.Phase(); {
	case task.Terminal(phase):
		return hold.ErrEnded
	case phase == genbusv1.JobPhase_JOB_PHASE_QUEUED:
		return j.submit.submit(ctx)
	case phase == genbusv1.JobPhase_JOB_PHASE_SUBMITTING:
		return j.submit.takeOver(ctx)
	default:
		return j.polling.poll(ctx)
	}
}

// endPoisoned ends a job that was delivered too many times. If it is unknown whether the upstream
// has the job, the terminal event reports this, because redriving the job might pay for it twice.
func (j *job) endPoisoned(ctx context.Context, f *errcode.Error) error {
	if task.OutcomeUnknown(j.task.video()) {
		return j.submit.endUnknown(ctx, f)
	}
	if err := j.held.Bury(ctx, f); err != nil {
		return err
	}
	return j.task.fail(ctx, f)
}

// finish cleans up after a job whose terminal event is in the log.
func (j *job) finish() error {
	ctx := context.WithoutCancel(j.held.Message.Context())
	j.archiving.discardCopies(ctx)
	j.archiving.discardInherited(ctx)
	if err := j.submit.lookUpEnded(j.held.Message.Context()); err != nil {
		return err
	}
	return j.held.Finish(ctx)
}
