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

// job is one held task's schedule. Its steps run one at a time: busy is set while a
// goroutine is at work, and who wants the job to step again while it is busy sets again.
type job struct {
	runner    *Runner
	held      *hold.Job
	release   func()
	interrupt interrupter // of the copy in hand
	// failing is what operators are told while polls fail, which no event says: a failed poll says
	// nothing of the task. Nil after a good one. What it points to is never changed.
	failing atomic.Pointer[genbusv1.HeldJob]

	mu       sync.Mutex
	busy     bool
	again    bool
	leaving  bool        // return the message after the step in hand
	timer    *time.Timer // the next step, when not busy
	wake     time.Time   // when that is
	stale    bool        // read the log before the next step
	awaiting bool        // a slot for the next poll
	resolved bool        // settled; nothing happens any more

	// Only who has set busy, or resolved, touches what follows.
	*steps  // nil while the task rests
	resting resting
}

// steps are what the steps of a task share.
type steps struct {
	task      heldTask
	submit    submission
	polling   polling
	archiving archiving
}

// resting is what is left of a task while it waits for its next poll, next to what its log
// says: very many tasks are in work, and nearly all of them wait.
type resting struct {
	slot     *pool.Slot
	polls    int
	last     telemetry.PollOutcome
	failures int
	failed   error
}

// Take begins with a task that was delivered. release is called when its slot is free.
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

// rouse makes what the steps share.
func (j *job) rouse() {
	if j.steps != nil {
		return
	}
	s := &steps{task: heldTask{runner: j.runner, held: j.held, pollAt: j.wake}}
	s.submit.task = &s.task
	s.archiving.task, s.archiving.interrupt = &s.task, &j.interrupt
	s.polling.task, s.polling.archiving, s.polling.failing = &s.task, &s.archiving, &j.failing
	s.polling.polls, s.polling.last = j.resting.polls, j.resting.last
	s.polling.failures, s.polling.failed = j.resting.failures, j.resting.failed
	s.task.assigned.waiter, s.task.assigned.slot = pool.NewWaiter(j.kick), j.resting.slot
	j.steps, j.resting = s, resting{}
}

// rest lets go of what the steps share, where the task waits until at for its next poll.
func (j *job) rest(at time.Time) {
	if !j.polling.mayRest() || !at.Equal(j.task.pollAt) {
		return
	}
	j.submit.releaseReserved()
	p := &j.polling
	j.resting = resting{slot: j.task.assigned.slot, polls: p.polls, last: p.last, failures: p.failures, failed: p.failed}
	j.steps = nil
	j.held.Pack()
}

// kick runs the next step now, or after the one in hand.
func (j *job) kick() {
	if j.begin() {
		go j.work(false)
	}
}

// begin reports whether the caller has to work on the job now. If so, Jobs counts it.
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

// work runs steps until the job can wait or is settled, the first of them with a slot for a
// poll or without.
func (j *job) work(slot bool) {
	defer j.runner.shared.Holder.Jobs.Done()
	j.rouse()
	j.task.slot = slot
	for {
		outcome := j.held.Conclude(j.step(), j.finish)
		if hold.Waits(outcome) && j.held.Suspect() && !j.task.unasked {
			outcome = j.held.Conclude(j.held.ResetPoisonCount(outcome), j.finish)
		}
		j.task.releaseSlot() // of a step that polled nothing
		if !j.continues(outcome) {
			return
		}
	}
}

// continues puts an outcome into effect and reports whether to step again at once.
func (j *job) continues(outcome error) bool {
	j.mu.Lock()
	wait, waits := errors.AsType[*hold.WaitError](outcome)
	if waits && j.leaving {
		outcome, waits = hold.Return(), false // the process stops
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
	j.leave(outcome)
	return false
}

// sleepUntil needs the lock. The timer is used again: very many jobs wake every few
// seconds.
func (j *job) sleepUntil(at time.Time) {
	j.wake = at
	if j.timer != nil {
		j.timer.Reset(time.Until(at))
		return
	}
	j.timer = time.AfterFunc(time.Until(at), j.wakeUp)
}

// wakeUp runs the next step. A task at rest does that with a slot for its poll, and rests until
// it has one: very many may be due at once.
func (j *job) wakeUp() {
	j.mu.Lock()
	awaiting := j.awaiting
	rests := !j.busy && !j.resolved && j.steps == nil
	j.awaiting = awaiting || rests
	j.mu.Unlock()
	switch {
	case !rests:
		if j.begin() {
			j.work(false) // the timer's goroutine has nothing else to do
		}
	case awaiting:
	case !j.runner.polls.acquire(j.granted):
	case j.beginPoll():
		j.work(true)
	default:
		j.runner.polls.release()
	}
}

// granted is called when a slot was taken for a task at rest.
func (j *job) granted() bool {
	if !j.beginPoll() {
		return false
	}
	go j.work(true)
	return true
}

// beginPoll is begin for a task that had waited for a slot.
func (j *job) beginPoll() bool {
	j.mu.Lock()
	j.awaiting = false
	j.mu.Unlock()
	return j.begin()
}

// leave settles the message and forgets the job.
func (j *job) leave(outcome error) {
	j.rouse()
	j.task.assigned.release()
	j.submit.releaseReserved()
	j.held.Release(outcome, j.polling.polls)
	j.release()
	if errors.Is(outcome, hold.ErrNotOurs) {
		j.archiving.discardCopies(j.held.Message.Context())
	}
}

// Job is the held task.
func (j *job) Job() *hold.Job { return j.held }

// Extend extends the message's AckWait.
func (j *job) Extend() { j.held.Message.Extend() }

// Confirm has the next step read the log first, and interrupts a copy: what was heard of
// the task may be its end.
func (j *job) Confirm() {
	j.mu.Lock()
	j.stale = true
	j.mu.Unlock()
	j.interrupt.now()
	j.kick()
}

// Tell says whether the task's polls fail.
func (j *job) Tell() *genbusv1.HeldJob {
	if failing := j.failing.Load(); failing != nil {
		return failing
	}
	return &genbusv1.HeldJob{}
}

// HandOver returns the message after the step in hand.
func (j *job) HandOver() {
	j.mu.Lock()
	j.leaving = true
	if j.busy || j.resolved {
		j.mu.Unlock()
		return
	}
	if j.timer != nil {
		j.timer.Stop()
	}
	j.resolved = true
	j.mu.Unlock()
	j.leave(hold.Return())
}

// takeStale reports whether the log has to be read before anything else: when something
// was heard or has failed.
func (j *job) takeStale() bool {
	j.mu.Lock()
	stale := j.stale
	j.stale = false
	j.mu.Unlock()
	return j.held.Reread() || stale
}

// step does the next thing that the task needs, whatever its phase is.
func (j *job) step() error {
	ctx := j.held.Message.Context()
	j.task.route, _ = j.runner.shared.Routes.Video(j.runner.route)
	j.task.unasked = false
	j.interrupt.step() // before it is read what was heard
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

// endPoisoned ends a task that was delivered too often. Where no one knows whether its
// upstream has it, that is what the end says: redriving it may pay twice.
func (j *job) endPoisoned(ctx context.Context, f *errcode.Error) error {
	if task.OutcomeUnknown(j.task.video()) {
		return j.submit.endUnknown(ctx, f)
	}
	if err := j.held.Bury(ctx, f); err != nil {
		return err
	}
	return j.task.fail(ctx, f)
}

// finish is for a task whose end is in the log.
func (j *job) finish() error {
	ctx := context.WithoutCancel(j.held.Message.Context())
	j.archiving.discardCopies(ctx)
	j.archiving.discardInherited(ctx)
	if err := j.submit.lookUpEnded(j.held.Message.Context()); err != nil {
		return err
	}
	return j.held.Finish(ctx)
}
