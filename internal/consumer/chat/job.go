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

// errNotOurs cancels the call of a chat that has ended or that another replica has taken over.
var errNotOurs = errors.New("the chat has ended or belongs to another replica")

// job is one held chat. Its goroutine runs until the chat ends or this replica drops it.
type job struct {
	runner *Runner
	held   *hold.Job
	ctx    context.Context //nolint:containedctx // cancelled with errNotOurs, or when the process stops its work
	stop   context.CancelCauseFunc

	// failing describes failed calls to operators while they are retried. No event records such a
	// failure unless the attempt is used up. The value that failing points to is immutable.
	failing atomic.Pointer[genbusv1.HeldJob]

	mu    sync.Mutex
	ended bool // no new goroutine may start

	// The job's goroutine owns the fields below.
	route       *routes.Chat // as of the start of the attempt or the end of its last wait
	maxAttempts int          // from the same configuration
	tried       pool.Tried   // kept across attempts in this process
	called      uint32       // the last attempt for which this holder called the upstream

	waiter *pool.Waiter  // its place in the queue for an upstream slot
	turn   chan struct{} // holds a token if a slot may be free
}

// renewRoute switches to the current route and the current limit on attempts.
func (j *job) renewRoute() {
	j.route, _ = j.runner.Routes.Chat(j.runner.Route)
	j.maxAttempts = j.runner.Config.Now().Chat.MaxAttempts
}

func (j *job) chat() *genbusv1.Chat {
	c, _ := j.held.Entry().Job.(*genbusv1.Chat)
	return c
}

// fail ends the chat with an error. chunks is the number of chunks published in this attempt.
func (j *job) fail(chunks uint64, f *errcode.Error) error {
	return j.held.Persist(j.ctx, func() (task.Event, error) {
		return task.FailedChat(j.chat(), time.Now(), chunks, f.TaskError())
	})
}

// Take starts work on a delivered chat. It calls release when the chat no longer needs its slot.
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

// work runs the chat until it ends or this replica drops it, and then settles its message.
func (j *job) work() {
	defer j.stop(nil)
	defer j.waiter.Cancel()
	outcome := j.run()
	// A WaitError means that the log could not be read or written, or that no upstream accepts the
	// chat now.
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

// await waits until at, until a slot may be free, or until the chat is no longer ours. It returns
// false if the process is stopping.
func (j *job) await(at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	lost := j.ctx.Done() // losing the chat ends the current wait but not later ones
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

// run executes one step and returns the message's outcome.
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

// step loads the chat's log and continues from its last event.
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

// endPoisoned ends a chat that was delivered too many times.
func (j *job) endPoisoned(f *errcode.Error) error {
	if err := j.held.Bury(j.ctx, f); err != nil {
		return err
	}
	return j.fail(0, f)
}

// cutOff returns the outcome of a step whose context has ended. If the chat is no longer ours,
// cutOff lets this replica finish a chat that has ended, and leaves any other chat to the replica
// that continues it.
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

// Confirm rereads the log in the background and cancels the chat's call if the chat is no longer
// ours. It starts no goroutine once the chat has ended, because nothing may be added to Jobs after
// the last job has ended.
func (j *job) Confirm() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended || j.held.Record.Ending() {
		return
	}
	j.runner.Holder.Jobs.Go(func() {
		current, err := j.runner.Holder.Log.Get(j.ctx, j.held.Name())
		if err == nil && j.held.Record.Superseded(current) { // after an error, the next commit detects this
			j.stop(errNotOurs)
		}
	})
}

// HandOver does nothing. A waiting chat stops by itself, and a running call may continue until the
// end of the grace period.
func (j *job) HandOver() {}

// Details returns details about failed calls that are being retried.
func (j *job) Details() *genbusv1.HeldJob {
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

// tooLate returns an error if a limit prevents another attempt, or nil.
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
