package consumer

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// chatRoute is what all queued chats of one route share.
type chatRoute struct {
	*Consumer
	routeID
	metrics *telemetry.RouteMetrics
}

// errNotOurs ends the call of a chat that was cancelled, or that another replica
// carries on.
var errNotOurs = errors.New("the chat has ended or is another replica's")

func (c *Consumer) takeChat(id routeID) take {
	route := &chatRoute{Consumer: c, routeID: id, metrics: c.Metrics.Route(id.kind, id.name)}
	return route.take
}

// chatJob is one held chat. Its goroutine lives as long as the chat does: a chat
// lasts as long as its call.
type chatJob struct {
	*chatRoute
	*routes.Chat // the route as it was when this attempt began; the goroutine's
	name         subject.TaskName
	item         *genbusv1.WorkItem
	ctx          context.Context // ends with errNotOurs, or with the process's work
	stop         context.CancelCauseFunc
	entry        tasklog.Entry
	shown        genbusv1.JobPhase // the phase that metrics know
	// attempts is the attempt that this process knows of, for taken; unread before the
	// log was read.
	attempts atomic.Uint32
	tried    pool.Tried // across the attempts of this process
	doubt    doubt      // before the log was read
	gone     doubt      // whether the log has vanished since
	body     itemBody

	mu        sync.Mutex
	msg       delivery
	confirmed time.Time // when the chat came, or the log was last read beside the call
	ended     bool      // settled; nothing begins any more

	ending atomic.Bool // the last event that was written, or tried, is its end
}

func (r *chatRoute) take(m jetstream.Msg, release func()) {
	d, item, ok := r.open(m)
	if !ok {
		release()
		return
	}
	j := r.newJob(d, item)
	j.renewRoute()
	if held, added := r.held.add(item.GetId(), j); !added {
		j.stop(nil)
		held.redelivered(d)
		release()
		return
	}
	r.metrics.AddHeld(1)
	r.jobs.Go(func() { j.work(release) })
}

// newJob is a chat of which nothing but its message was read. Its trace begins; where
// the chat is held already it never ends, and so is not exported.
func (r *chatRoute) newJob(d delivery, item *genbusv1.WorkItem) *chatJob {
	j := &chatJob{
		chatRoute: r, item: item, msg: d,
		name: subject.TaskName{Kind: subject.Chat, Tenant: item.GetTenant(), ID: item.GetId()}, confirmed: time.Now(),
	}
	j.attempts.Store(unread)
	j.ctx, j.stop = context.WithCancelCause(r.startHold(item, d))
	return j
}

// work carries the chat to its end and settles its message.
func (j *chatJob) work(release func()) {
	defer release()
	defer j.metrics.AddHeld(-1)
	defer j.held.remove(j.name.ID)
	defer j.stop(nil)
	out := j.run()
	for out.verb == hold { // the log could not be read or written, or nobody takes the chat now
		if broker.Wait(j.fetching, time.Until(out.at)) != nil {
			out = Nak()
			break
		}
		out = j.run()
	}
	j.mu.Lock()
	j.ended = true
	j.mu.Unlock()
	if err := settle(j.delivery(), out); err != nil {
		j.Logger.Warn("settle failed; the message will be redelivered", j.attrs("error", err)...)
	}
	j.show(genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
	endHold(j.ctx, j.entry, out, 0)
}

// show moves the chat to the gauge of its phase.
func (j *chatJob) show(phase genbusv1.JobPhase) {
	j.metrics.Moved(task.PhaseWord(j.shown), task.PhaseWord(phase))
	j.shown = phase
}

func (j *chatJob) delivery() delivery {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.msg
}

func (j *chatJob) redelivered(d delivery) {
	j.mu.Lock()
	same := j.msg.seq == d.seq
	if same {
		j.msg = d
	}
	j.mu.Unlock()
	if !same {
		j.anotherItem(d, j.attrs()...)
	}
	j.confirm()
}

func (j *chatJob) extend() {
	if err := j.delivery().inProgress(); err != nil {
		j.Logger.Debug("extend failed", j.attrs("error", err)...)
	}
	if j.confirmDue(time.Now()) {
		j.confirm()
	}
}

func (j *chatJob) confirmDue(now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now.Sub(j.confirmed) < confirmEvery || !j.reads.Allow() {
		return false
	}
	j.confirmed = now
	return true
}

// confirm reads the log beside the call, and cuts the call when the chat is not
// ours any more. The write of the end finds that out by itself, and brings the news
// of it here.
func (j *chatJob) confirm() {
	if j.ending.Load() {
		return
	}
	j.beside(func() {
		current, err := j.Log.Get(j.ctx, j.name)
		if err != nil {
			return // the next commit finds out
		}
		if current.Terminal() || j.taken(current) {
			j.stop(errNotOurs)
		}
	})
}

// unread is more than every attempt: what stood in the log before it was read takes
// nothing from anybody.
const unread = math.MaxUint32

// taken reports whether another replica has begun an attempt since the log was read.
func (j *chatJob) taken(current tasklog.Entry) bool {
	x := current.Job.GetExecution()
	return x.GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED && x.GetWriter() != j.Log.Writer() && x.GetAttempt() > j.attempts.Load()
}

// beside runs f in a goroutine that the process waits for, unless the chat has
// ended: nothing may begin once the last job is counted out.
func (j *chatJob) beside(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.jobs.Go(f)
	}
}

// handOver does nothing: a chat always has its call in hand, and is waited for
// until the grace period ends.
func (j *chatJob) handOver() {}

func (j *chatJob) attrs(more ...any) []any { return jobAttrs(j.name, j.chatRoute.name, more...) }

func (j *chatJob) chat() *genbusv1.Chat {
	c, _ := j.entry.Job.(*genbusv1.Chat)
	return c
}

// run reads the log and goes on from there.
func (j *chatJob) run() Outcome {
	if out, ok := j.load(); !ok {
		return out
	}
	for {
		j.renewRoute()
		now, err := j.Broker.Clock().Now()
		if err != nil {
			return unjudged()
		}
		if f := j.tooLate(now); f != nil {
			return j.fail(0, f)
		}
		if out, again := j.attempt(); !again {
			return out
		}
	}
}

// renewRoute takes the route as it is configured now.
func (j *chatJob) renewRoute() { j.Chat, _ = j.Routes.Chat(j.chatRoute.name) }

// notNow is the outcome when the log does not answer.
func (j *chatJob) notNow() Outcome {
	if j.ctx.Err() != nil {
		return j.cutOff()
	}
	return HoldFor(retryLog)
}

// cutOff is the outcome of a chat whose context has ended.
func (j *chatJob) cutOff() Outcome {
	if errors.Is(context.Cause(j.ctx), errNotOurs) {
		return j.afterNotOurs()
	}
	return Nak()
}

// afterNotOurs acknowledges a chat that has ended, and leaves one that another
// replica carries on.
func (j *chatJob) afterNotOurs() Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(j.ctx), commitTimeout)
	defer cancel()
	current, err := j.Log.Get(ctx, j.name)
	if err != nil || !current.Terminal() {
		return Drop()
	}
	j.entry = current
	return j.finish()
}

// tooLate says which limit a chat that is not called has passed.
func (j *chatJob) tooLate(now time.Time) *fault.Error {
	if f := notStarted(j.entry.Job, now); f != nil {
		return f
	}
	x, id := j.entry.Job.GetExecution(), j.name.ID
	switch {
	case int(j.chat().GetAttempt()) >= j.Config.Now().Chat.MaxAttempts:
		return fault.New(fault.ChatAttemptsExhausted, "job %s was cut off in all of its %d attempts", id, j.chat().GetAttempt())
	case x.GetDeadline() != nil && now.After(x.GetDeadline().AsTime()):
		return fault.New(fault.DeadlineExceeded, "job %s did not finish by its deadline", id)
	}
	return nil
}

// reserve takes a place with an upstream before the chat is said to have started.
// It reports false with an outcome when nobody takes it now.
func (j *chatJob) reserve() (*pool.Lease, Outcome, bool) {
	j.tried.Again = j.chat().GetAttempt() > 0
	lease, err := j.Caller.Reserve(&j.tried)
	var busy *pool.BusyError
	switch {
	case err == nil:
		return lease, Outcome{}, true
	case errors.As(err, &busy):
		return nil, Hold(j.beforeLimits(soon(busy.Until))), false
	default:
		return nil, HoldFor(retryLog), false
	}
}

// beforeLimits is at, or the first limit that the chat would pass by then. Once
// it was called, expires_at and the queue's limit end nothing any more, as in
// tooLate: to wait for one that has passed would be to wait for nothing, in a loop.
func (j *chatJob) beforeLimits(at time.Time) time.Time {
	x := j.entry.Job.GetExecution()
	limits := []*timestamppb.Timestamp{x.GetDeadline()}
	if x.GetFirstSubmitAt() == nil {
		limits = append(limits, j.entry.Job.GetExpiresAt(), x.GetQueueDeadline())
	}
	return earliest(at, limits...)
}

// start commits the next attempt before the upstream is called, into the room that it has.
func (j *chatJob) start(a pool.Account, room tasklog.Release) (Outcome, bool) {
	defer room()
	now, err := j.Broker.Clock().Now()
	if err != nil {
		return unjudged(), false
	}
	e, err := task.Started(j.chat(), now, task.Attempt{
		Upstream: a.Upstream, Key: a.Key, Deadline: now.Add(j.Timeouts.Total * time.Duration(j.Config.Now().Chat.MaxAttempts)),
	})
	if err != nil {
		j.Logger.Error("a transition that is not allowed", j.attrs("error", err)...)
		return HoldFor(retryLog), false
	}
	return j.commit(e, j.entry.Seq)
}
