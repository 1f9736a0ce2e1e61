package chat

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// errNotOurs ends the call of a chat that has ended or that another replica has continued.
var errNotOurs = errors.New("the chat has ended or belongs to another replica")

// job is one held chat. Its goroutine lives until the chat ends or is dropped.
type job struct {
	runner *Runner
	held   *hold.Job
	ctx    context.Context //nolint:containedctx // ends with errNotOurs, or with the process's work
	stop   context.CancelCauseFunc

	// failing is what operators see while failed calls are retried: no event records such a failure
	// unless the attempt is used up. The value it points to never changes.
	failing atomic.Pointer[genbusv1.HeldJob]

	mu    sync.Mutex
	ended bool // nothing more may begin

	// The job's goroutine owns the fields below.
	route       *routes.Chat // as of the start of the attempt, or the end of its last wait
	maxAttempts int          // of the same configuration
	tried       pool.Tried   // across the attempts of this process
	called      uint32       // the last attempt that was called here

	waiter *pool.Waiter  // its place among those that wait for a slot
	turn   chan struct{} // has a token if a slot may be free
}

// renewRoute adopts the current route and the current limit of attempts.
func (j *job) renewRoute() {
	j.route, _ = j.runner.Routes.Chat(j.runner.Route)
	j.maxAttempts = j.runner.Config.Now().Chat.MaxAttempts
}

func (j *job) chat() *genbusv1.Chat {
	c, _ := j.held.Entry().Job.(*genbusv1.Chat)
	return c
}

// fail ends the chat with an error. chunks counts the published chunks of this attempt.
func (j *job) fail(chunks uint64, f *errcode.Error) error {
	return j.held.Persist(j.ctx, func() (task.Event, error) {
		return task.FailedChat(j.chat(), time.Now(), chunks, f.TaskError())
	})
}

// Take starts work on a delivered chat. It calls release when the chat's slot is free.
func (r *Runner) Take(d hold.Delivery, item *genbusv1.WorkItem, release func()) {
	j := &job{runner: r, held: r.Holder.NewJob(item, d, r.Metrics), turn: make(chan struct{}, 1)}
	j.waiter = pool.NewWaiter(func() {
		select {
		case j.turn <- struct{}{}:
		default:
		}
	})
	j.ctx, j.stop = context.WithCancelCause(j.held.Message.Context())
	if !r.Holder.Add(j) {
		j.stop(nil)
		release()
		return
	}
	r.Holder.Jobs.Go(func() {
		defer release()
		j.work()
	})
}

// work carries the chat to its end and settles its message.
func (j *job) work() {
	defer j.stop(nil)
	defer j.waiter.Leave()
	outcome := j.run()
	// The log could not be read or written, or no upstream takes the chat now.
	for wait := (*hold.WaitError)(nil); errors.As(outcome, &wait); {
		if j.held.Suspect() && !j.uncalled() {
			if outcome = j.conclude(j.held.ResetPoisonCount(outcome)); !hold.Waits(outcome) {
				break
			}
		}
		if !j.await(wait.Until) {
			outcome = hold.Return()
			break
		}
		outcome = j.run()
	}
	j.mu.Lock()
	j.ended = true
	j.mu.Unlock()
	j.held.Release(outcome, 0)
}

// await waits until at, or until a slot may be free. It returns false if the process is stopping.
func (j *job) await(at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	lost := j.ctx.Done() // the chat is no longer ours: this ends one wait, not every later one
	if j.ctx.Err() != nil {
		lost = nil
	}
	select {
	case <-j.runner.Holder.Fetching.Done():
		return false
	case <-timer.C:
	case <-j.turn:
	case <-lost:
	}
	return true
}

// run runs one step and returns the outcome for the message.
func (j *job) run() error {
	step := j.step()
	if j.ctx.Err() != nil {
		step = j.cutOff(step)
	}
	return j.conclude(step)
}

func (j *job) conclude(step error) error {
	return j.held.Conclude(step, func() error { return j.held.Finish(j.ctx) })
}

// step reads the log and continues from there.
func (j *job) step() error {
	if err := j.held.Load(j.ctx); err != nil {
		return err
	}
	if err := j.held.CheckPoison(j.endPoisoned); err != nil {
		return err
	}
	for {
		j.renewRoute()
		now, err := j.runner.Holder.Broker.Clock().Now()
		if err != nil {
			return j.held.Unjudged()
		}
		if f := j.tooLate(now); f != nil {
			return j.fail(0, f)
		}
		if err := j.attempt(); err != nil {
			return err
		}
	}
}

// endPoisoned ends a chat that was delivered too often.
func (j *job) endPoisoned(f *errcode.Error) error {
	if err := j.held.Bury(j.ctx, f); err != nil {
		return err
	}
	return j.fail(0, f)
}

// cutOff returns the outcome of a step whose context has ended. A chat that is no longer ours is
// finished if it has ended. Otherwise another replica continues it.
func (j *job) cutOff(step error) error {
	switch {
	case errors.Is(step, hold.ErrEnded), errors.Is(step, hold.ErrNotOurs), errors.Is(step, hold.ErrStale):
		return step
	case !errors.Is(context.Cause(j.ctx), errNotOurs):
		return hold.Return()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), hold.CommitTimeout)
	defer cancel()
	return j.held.LetGo(ctx)
}

// Job returns the held chat.
func (j *job) Job() *hold.Job { return j.held }

// Extend extends the message's AckWait.
func (j *job) Extend() { j.held.Message.Extend() }

// Confirm reads the log during the call, and cuts the call off if the chat is no longer ours.
// Nothing may be added to Jobs once the last job has ended.
func (j *job) Confirm() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.held.Record.Ending() {
		return
	}
	j.runner.Holder.Jobs.Go(func() {
		current, err := j.runner.Holder.Log.Get(j.ctx, j.held.Name())
		if err == nil && j.held.Record.Superseded(current) { // after an error the next commit finds out
			j.stop(errNotOurs)
		}
	})
}

// HandOver does nothing: a chat always has a running call, which may take until the end of the
// grace period.
func (j *job) HandOver() {}

// Tell returns details of failing calls.
func (j *job) Tell() *genbusv1.HeldJob {
	if failing := j.failing.Load(); failing != nil {
		return failing
	}
	return &genbusv1.HeldJob{}
}

// noteFailure records a failed call for operators.
func (j *job) noteFailure(err error) {
	j.failing.Store(&genbusv1.HeldJob{
		CallsFailed: j.failing.Load().GetCallsFailed() + 1, LastCallError: upstream.AsError("chat", err).Outline(), LastCallErrorAt: timestamppb.Now(),
	})
}

// tooLate returns which limit an uncalled chat has passed, or nil.
func (j *job) tooLate(now time.Time) *errcode.Error {
	if f := hold.NotStarted(j.chat(), now); f != nil {
		return f
	}
	c := j.chat()
	deadline := c.GetExecution().GetDeadline()
	switch {
	case int(c.GetAttempt()) >= j.maxAttempts && !j.uncalled():
		return errcode.New(errcode.ChatAttemptsExhausted, "job %s was interrupted in all of its %d attempts", c.GetId(), c.GetAttempt())
	case deadline != nil && now.After(deadline.AsTime()):
		return errcode.New(errcode.DeadlineExceeded, "job %s did not finish by its deadline", c.GetId())
	}
	return nil
}
