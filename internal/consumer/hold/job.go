package hold

import (
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Job is a held job: the steps that all kinds of jobs share. It belongs to the goroutine that works
// on the job. Message and a few methods of Record are safe for concurrent use.
type Job struct {
	Message Message
	Record  Record
	Request Request

	holder *Holder
	stale  staleCheck // suspects the work item, before the log was read
	reread bool       // read the log before the next step
	judged bool       // known not to be poisoned
}

// NewJob returns a job before its log is read, and starts its trace span. If the job is held
// already, the span never ends and is not exported.
func (h *Holder) NewJob(item *genbusv1.WorkItem, d Delivery, metrics *telemetry.RouteMetrics) *Job {
	j := &Job{
		holder: h,
		Message: Message{
			parts: &h.Options, metrics: metrics, name: joblog.NameOf(item), route: item.GetRoute(), ctx: startSpan(h.Working, h.Tracing, item, d), last: d,
		},
		Record:  Record{log: h.Log, metrics: metrics},
		Request: Request{parts: &h.Options, name: joblog.NameOf(item), seq: d.Seq, item: item},
	}
	j.Record.version.Store(unread)
	return j
}

// Name returns the job's name.
func (j *Job) Name() subject.JobName { return j.Message.name }

// Logger returns a logger with the job's attributes.
func (j *Job) Logger() *slog.Logger { return j.Message.logger() }

// Entry returns the job's last known event, or zero before Load.
func (j *Job) Entry() joblog.Entry { return j.Record.last() }

// Reread reports whether the log must be read before the next step, and resets the request for it.
func (j *Job) Reread() bool {
	reread := j.reread || j.Record.last().Job == nil
	j.reread = false
	return reread
}

// UntilReread keeps the message until at, and rereads the log then.
func (j *Job) UntilReread(at time.Time) error {
	j.reread = true
	return Until(at)
}

// Pack stores a video's last event in less memory until it is needed.
func (j *Job) Pack() { j.Record.pack() }

// Release settles the message and drops the job. calls is the number of polls.
func (j *Job) Release(outcome error, calls int) {
	// Before the settlement: once the item is gone, a new job may have the same ID.
	j.holder.held.remove(j.Message.name.ID)
	j.Message.settle(outcome)
	j.Record.show(genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
	j.Message.endSpan(outcome, calls, &j.Record)
	j.Message.metrics.AddHeld(-1)
}
