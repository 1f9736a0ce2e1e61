package consumer

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// videoRoute is what all tasks of one route share.
type videoRoute struct {
	*Consumer
	routeID
	metrics *telemetry.RouteMetrics
	// polls bounds the polls in flight, so that an upstream that hangs costs
	// lateness and not every file descriptor.
	polls chan struct{}
}

// maxPolls is the number of polls that one route has in flight in one process.
const maxPolls = 512

func (c *Consumer) takeVideo(id routeID) take {
	route := &videoRoute{
		Consumer: c, routeID: id,
		metrics: c.Metrics.Route(id.kind, id.name),
		polls:   make(chan struct{}, maxPolls),
	}
	return route.take
}

// videoJob is one held video task. Its steps run one at a time: busy is set
// while a goroutine is at work, and whoever wants the job to look again while it
// is busy sets again.
type videoJob struct {
	*videoRoute
	name    subject.TaskName
	ctx     context.Context //nolint:containedctx // the process's work, with the span of this hold
	release func()

	mu       sync.Mutex
	msg      delivery
	busy     bool
	again    bool
	leaving  bool        // give the message back after the step in hand
	timer    *time.Timer // the next step, when not busy
	wake     time.Time   // when that is
	stale    bool        // read the log before the next step
	resolved bool        // settled; nothing happens any more
	// interrupt ends a copy that is being made; nil without one.
	interrupt func()

	// Only the goroutine at work touches what follows.
	*routes.Video                      // the route as it was when this step began
	item          *genbusv1.WorkItem   // until the upstream is known to have the task
	entry         tasklog.Entry        // zero until the log was read
	confirmed     time.Time            // when the log was last read or written
	began         uint32               // attempt whose create request this object began
	unsent        []string             // nonces of commits of submitting whose answer never came
	left          uint64               // the event by which this holder let go of its item
	due           time.Time            // when the step was to run
	pollAt        time.Time            // the next poll; zero: at once
	answer        *upstream.VideoState // to the last poll, while it is not in the log
	failures      int                  // polls that failed in a row
	pollFailed    error                // what the last of them said; nil after a good poll
	asked         bool                 // this process has polled
	doubt         doubt                // before the log was read
	body          itemBody
	buried        bool // a dead letter of its end was stored
	tainted       bool // its holders have died often
	assigned      assignment
	result        result
	pollsEnded    int                   // in this hold
	lastPoll      telemetry.PollOutcome // of the poll before
	shown         genbusv1.JobPhase     // the phase that metrics know
}

// take registers the task of a message and begins with it.
func (r *videoRoute) take(m jetstream.Msg, release func()) {
	d, item, ok := r.open(m)
	if !ok {
		release()
		return
	}
	j := &videoJob{
		videoRoute: r, item: item, release: release, msg: d, stale: true,
		name: subject.TaskName{Kind: subject.Video, Tenant: item.GetTenant(), ID: item.GetId()},
	}
	j.renewRoute()
	j.ctx = r.startHold(item, d) // never ended, and so not exported, where the job is held already
	if held, added := r.held.add(item.GetId(), j); !added {
		held.redelivered(d)
		release()
		return
	}
	r.metrics.AddHeld(1)
	j.kick(time.Now())
}

// kick runs the next step now, or after the one in hand.
func (j *videoJob) kick(due time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.resolved:
	case j.busy:
		j.again = true
	default:
		j.busy, j.due = true, due
		if j.timer != nil {
			j.timer.Stop()
		}
		j.jobs.Add(1)
		go j.work()
	}
}

// work runs steps until the job can wait or is settled.
func (j *videoJob) work() {
	defer j.jobs.Done()
	for {
		out := j.step()
		if out.verb == hold && j.tainted {
			out = j.clear(out)
		}
		j.show(j.phase())
		if !j.continues(out) {
			return
		}
	}
}

// continues puts an outcome into effect and reports whether to step again at
// once.
func (j *videoJob) continues(out Outcome) bool {
	j.mu.Lock()
	if out.verb == hold && j.leaving {
		out = Nak() // the process stops
	}
	if out.verb == hold && j.again {
		j.again, j.due = false, time.Now()
		j.mu.Unlock()
		return true
	}
	j.busy = false
	if out.verb == hold {
		j.sleepUntil(out.at)
		j.mu.Unlock()
		return false
	}
	j.resolved = true
	d := j.msg
	j.mu.Unlock()
	j.leave(d, out)
	return false
}

// sleepUntil needs the lock. The timer is used again: very many jobs wake every
// few seconds.
func (j *videoJob) sleepUntil(at time.Time) {
	j.wake = at
	if j.timer != nil {
		j.timer.Reset(time.Until(at))
		return
	}
	j.timer = time.AfterFunc(time.Until(at), func() {
		j.mu.Lock()
		due := j.wake
		j.mu.Unlock()
		j.kick(due)
	})
}

// leave settles the message and forgets the job.
func (j *videoJob) leave(d delivery, out Outcome) {
	// Forgotten first: once the item is gone, a new job may have the same id.
	j.assigned.leave()
	j.held.remove(j.name.ID)
	if err := settle(d, out); err != nil {
		j.Logger.Warn("settle failed; the message will be redelivered", j.attrs("error", err)...)
	}
	j.show(genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
	endHold(j.ctx, j.entry, out, j.pollsEnded)
	j.metrics.AddHeld(-1)
	j.release()
	if out.verb == drop { // another replica has the task, or it was erased
		j.discardCopies(j.ctx)
	}
}

// show moves the job to the gauge of its phase.
func (j *videoJob) show(phase genbusv1.JobPhase) {
	j.metrics.Moved(task.PhaseWord(j.shown), task.PhaseWord(phase))
	j.shown = phase
}

func (j *videoJob) redelivered(d delivery) {
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

func (j *videoJob) extend() {
	j.mu.Lock()
	d, resolved := j.msg, j.resolved
	j.mu.Unlock()
	if resolved {
		return
	}
	if err := d.inProgress(); err != nil {
		j.Logger.Debug("extend failed", j.attrs("error", err)...)
	}
}

func (j *videoJob) confirm() {
	j.mu.Lock()
	j.stale = true
	if j.interrupt != nil {
		j.interrupt()
	}
	j.mu.Unlock()
	j.kick(time.Now())
}

func (j *videoJob) handOver() {
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
	d := j.msg
	j.mu.Unlock()
	j.leave(d, Nak())
}

// takeStale reports whether the log has to be read before anything else: when
// something was heard, and every confirmEvery as far as the budget allows.
func (j *videoJob) takeStale(now time.Time) bool {
	j.mu.Lock()
	stale := j.stale
	j.stale = false
	j.mu.Unlock()
	return stale || j.entry.Job == nil || now.Sub(j.confirmed) >= confirmEvery && j.reads.Allow()
}

func (j *videoJob) video() *genbusv1.VideoTask {
	v, _ := j.entry.Job.(*genbusv1.VideoTask)
	return v
}

// phase is the one in the log; unspecified until that was read.
func (j *videoJob) phase() genbusv1.JobPhase {
	if j.entry.Job == nil {
		return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
	}
	return j.entry.Job.GetExecution().GetPhase()
}

func (j *videoJob) attrs(more ...any) []any {
	return jobAttrs(j.name, j.videoRoute.name, more...)
}

// renewRoute takes the route as it is configured now.
func (j *videoJob) renewRoute() { j.Video, _ = j.Routes.Video(j.videoRoute.name) }

// step does the next thing that the task needs, whatever its phase is.
func (j *videoJob) step() Outcome {
	ctx := j.ctx
	j.renewRoute()
	if j.takeStale(time.Now()) {
		if out, ok := j.load(ctx); !ok {
			return out
		}
	}
	switch phase := j.phase(); {
	case task.Terminal(phase):
		return j.finish(ctx)
	case phase == genbusv1.JobPhase_JOB_PHASE_QUEUED:
		return j.submit(ctx)
	case phase == genbusv1.JobPhase_JOB_PHASE_SUBMITTING:
		return j.takeOverSubmission(ctx)
	default:
		return j.poll(ctx)
	}
}
