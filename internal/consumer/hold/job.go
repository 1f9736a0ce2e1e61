package hold

import (
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Job is a held job: the steps that jobs of all kinds have in common, by its message, by
// what is known of its log, and by its request. It belongs to the one goroutine that works
// on the job; of its parts, Message is safe for concurrent use, and a few methods of Record.
type Job struct {
	Message Message
	Record  Record
	Request Request

	holder *Holder
	stale  staleCheck // held against the work item, before the log was read
	reread bool       // the log is read before the next step
	judged bool       // it is known not to be poisoned
}

// NewJob is a job of which only its message was read. Its trace begins; where the job is
// held already it never ends, and so is not exported.
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

// Name is the job's.
func (j *Job) Name() subject.JobName { return j.Message.name }

// Logger names the job in every record.
func (j *Job) Logger() *slog.Logger { return j.Message.logger() }

// Entry is the job's last known event; zero until Load.
func (j *Job) Entry() joblog.Entry { return j.Record.last() }

// Reread reports, once, whether the last step asked for the log to be read again.
func (j *Job) Reread() bool {
	reread := j.reread || j.Record.last().Job == nil
	j.reread = false
	return reread
}

// UntilReread keeps the message until at, and has the log read then.
func (j *Job) UntilReread(at time.Time) error {
	j.reread = true
	return Until(at)
}

// Pack keeps a video's last event in less memory until it is asked for.
func (j *Job) Pack() { j.Record.pack() }

// Release settles the message and forgets the job. calls is the number of polls.
func (j *Job) Release(outcome error, calls int) {
	// Forgotten first: once the item is gone, a new job may have the same id.
	j.holder.held.remove(j.Message.name.ID)
	j.Message.settle(outcome)
	j.Record.show(genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED)
	j.Message.endSpan(outcome, calls, &j.Record)
	j.Message.metrics.AddHeld(-1)
}
