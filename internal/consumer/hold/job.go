package hold

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Job is a held job: its message, its work item, and its log as this holder knows it.
// Extend, ConfirmDue, Ending and Superseded are safe for concurrent use; everything else belongs
// to the one goroutine that works on the job.
type Job struct {
	holder  *Holder
	metrics *telemetry.RouteMetrics
	name    subject.TaskName
	route   string
	ctx     context.Context //nolint:containedctx // the process's work, with the span of this hold

	message   message
	confirmed atomic.Int64  // when the log was last read or written, in Unix nanoseconds
	version   atomic.Uint64 // of entry; unread before that
	ending    atomic.Bool   // the last event that was written, or tried, is the job's end

	item  *genbusv1.WorkItem // nil once the upstream is known to have the task
	entry joblog.Entry       // zero until the log was read
	shown genbusv1.JobPhase  // the phase that metrics know
	// stale and vanished are held against the item, before the log was read, and against
	// the log after that.
	stale, vanished staleCheck
	reread          bool       // the log is read before the next step
	unheard         []string   // nonces of commits whose answer never came
	missed          staleCheck // the body
	buried          bool       // a dead letter of its end is stored
}

// unread is more than every version: what the log had before it was read takes the job
// from nobody.
const unread = math.MaxUint64

// NewJob is a job of which only its message was read. Its trace begins; where the job is
// held already it never ends, and so is not exported.
func (h *Holder) NewJob(item *genbusv1.WorkItem, d Delivery, metrics *telemetry.RouteMetrics) *Job {
	j := &Job{
		holder: h, metrics: metrics, name: Name(item), route: item.GetRoute(), item: item, ctx: h.startSpan(item, d),
		message: message{d: d},
	}
	j.version.Store(unread)
	j.confirmed.Store(time.Now().UnixNano())
	return j
}

// Name is the name of a work item's job.
func Name(item *genbusv1.WorkItem) subject.TaskName {
	return subject.TaskName{Kind: subject.Kind(item.GetKind()), Tenant: item.GetTenant(), ID: item.GetId()}
}

// Name is the job's.
func (j *Job) Name() subject.TaskName { return j.name }

// Context ends with the process's work, and has the span of this hold.
func (j *Job) Context() context.Context { return j.ctx }

// Delivery is the last one of the message.
func (j *Job) Delivery() Delivery { return j.message.delivery() }

// Item is the work item, or nil after ReleaseItem.
func (j *Job) Item() *genbusv1.WorkItem { return j.item }

// ReleaseItem lets go of the memory of the work item, whose body may be large.
func (j *Job) ReleaseItem() { j.item = nil }

// Entry is the job's last known event; zero until Load.
func (j *Job) Entry() joblog.Entry { return j.entry }

// Phase is the one in the log; unspecified until that was read.
func (j *Job) Phase() genbusv1.JobPhase {
	if j.entry.Job == nil {
		return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
	}
	return j.entry.Job.GetExecution().GetPhase()
}

// Reread reports, once, whether the last step asked for the log to be read again.
func (j *Job) Reread() bool {
	reread := j.reread || j.entry.Job == nil
	j.reread = false
	return reread
}

// UntilReread keeps the message until at, and has the log read then.
func (j *Job) UntilReread(at time.Time) error {
	j.reread = true
	return Until(at)
}

// Unheard reports whether an event is one of this holder's own whose commit was never
// answered. That its writer is this process proves less: the process may have held the
// job before.
func (j *Job) Unheard(e joblog.Entry) bool { return slices.Contains(j.unheard, e.Nonce) }

// Ending reports whether the last event that was written, or tried, is the job's end. What
// is heard of the log then is no news: the write finds out by itself.
func (j *Job) Ending() bool { return j.ending.Load() }

// Superseded reports whether current takes the job from this holder: the job has ended, or
// another replica has gone on with it. Our own end does not.
func (j *Job) Superseded(current joblog.Entry) bool {
	return !j.Ending() && (current.Terminal() || j.byOther(current))
}

func (j *Job) byOther(current joblog.Entry) bool {
	return current.Version() > j.version.Load() && current.Job.GetExecution().GetWriter() != j.holder.Log.Writer()
}

// Extend extends the AckWait of the message.
func (j *Job) Extend() {
	if err := j.message.extend(); err != nil {
		j.Logger().Debug("extend failed", telemetry.KeyError, err)
	}
}

// ConfirmDue reports whether the log is to be read although nothing was heard of the job.
func (j *Job) ConfirmDue(now time.Time) bool {
	since := j.confirmed.Load()
	if now.Sub(time.Unix(0, since)) < confirmEvery || !j.holder.reads.Allow() {
		return false
	}
	return j.confirmed.CompareAndSwap(since, now.UnixNano())
}

// redelivered replaces the delivery of the message. Of two items of one job it shows when
// the job is released which one is stale.
func (j *Job) redelivered(d Delivery) {
	if j.message.replace(d) {
		return
	}
	if err := d.Settle(ReturnAfter(SecondLook)); err != nil {
		j.Logger().Warn("settle failed; the message will be redelivered", telemetry.KeyError, err)
	}
}

// Release settles the message and forgets the job. calls is the number of polls.
func (j *Job) Release(outcome error, calls int) {
	// Forgotten first: once the item is gone, a new job may have the same id.
	j.holder.held.remove(j.name.ID)
	if err := j.message.settle(outcome); err != nil {
		j.Logger().Warn("settle failed; the message will be redelivered", telemetry.KeyError, err)
	}
	j.show(genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
	j.endSpan(outcome, calls)
	j.metrics.AddHeld(-1)
}

// set takes what the log has.
func (j *Job) set(e joblog.Entry) {
	j.entry, j.vanished = e, staleCheck{}
	j.version.Store(e.Version())
	j.confirmed.Store(time.Now().UnixNano())
	j.show(e.Job.GetExecution().GetPhase())
}

// show moves the job to the gauge of its phase.
func (j *Job) show(phase genbusv1.JobPhase) {
	j.metrics.Moved(task.PhaseWord(j.shown), task.PhaseWord(phase))
	j.shown = phase
}

// Logger names the job in every record.
func (j *Job) Logger() *slog.Logger { return j.holder.Logger.With(Attrs(j.name, j.route)...) }

// Attrs are what a log record says of a job, and more.
func Attrs(name subject.TaskName, route string, more ...any) []any {
	return append([]any{slog.String(telemetry.KeyJobID, name.ID), slog.String(telemetry.KeyTenant, name.Tenant), slog.String("route", route)}, more...)
}

// Span is the one of this hold.
func (j *Job) Span() trace.Span { return trace.SpanFromContext(j.ctx) }
