package rescue

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// stuckAfter is how long after its deadline a started job is checked. By then its holder, or a
// replica that has taken the job over, should have ended it.
const stuckAfter = time.Minute

// stuck returns the error that ends a started job which is past its deadline and has no work item:
// GENBUS_WORK was purged or restored from an older backup, or the item was acknowledged by mistake.
// Without the item, the job is delivered to no replica. A replica that still holds it ends it in
// the same way at its next poll, and one of the two loses its compare-and-set. f is nil if the job
// is not stuck; again is when to check it next, or zero for never.
func stuck(ctx context.Context, p Options, e joblog.Entry, now time.Time) (f *errcode.Error, again time.Time, err error) {
	by, started := task.EndBy(e.Job)
	if !started {
		return nil, time.Time{}, nil
	}
	if by = by.Add(stuckAfter); now.Before(by) {
		return nil, by, nil
	}
	if c, ok := e.Job.(*genbusv1.Chat); ok && c.GetInline() {
		return inlineFault(c), time.Time{}, nil
	}
	item, err := p.Queue.Items.Find(ctx, e.Name())
	v, isVideo := e.Job.(*genbusv1.VideoTask)
	switch {
	case err == nil && isVideo && task.Untouched(v) && p.Queue.Items.Waits(item):
		return errcode.New(errcode.DeadlineExceeded, "job %s: its deadline has passed while it waited to be submitted again", e.Job.GetId()), time.Time{}, nil
	case err == nil: // the holder that it is delivered to ends the job
		return nil, now.Add(stuckAfter), nil
	case !errors.Is(err, broker.ErrNoMessage):
		return nil, time.Time{}, err
	}
	// An item is removed after its job's end is stored. If that has just happened, the item is not
	// lost, and no dead letter may be written.
	if current, err := p.Log.Get(ctx, e.Name()); err != nil || current.Seq != e.Seq {
		return nil, now, err
	}
	f = stuckFault(e.Job)
	if v, ok := e.Job.(*genbusv1.VideoTask); ok && (f.Code == errcode.SubmissionUnknown || v.GetExecution().GetUnconfirmed() != "") {
		return f, time.Time{}, p.DeadLetters.PutJob(ctx, deadletter.WorkItemFromLog(v), v, f)
	}
	return f, time.Time{}, nil
}

// inlineFault returns the error of an inline chat whose end was not stored. Its events are best
// effort: its caller may have had the whole reply, or the replica may have died during the chat.
func inlineFault(c *genbusv1.Chat) *errcode.Error {
	return errcode.New(errcode.DeadlineExceeded, "the end of inline chat %s was not recorded before its deadline; its caller may have received the whole reply", c.GetId())
}

func stuckFault(job task.Job) *errcode.Error {
	if task.OutcomeUnknown(job) {
		return errcode.New(errcode.SubmissionUnknown, "upstream %s may have accepted job %s: its deadline has passed, and its work item is missing",
			job.GetExecution().GetUpstream(), job.GetId())
	}
	return errcode.New(errcode.DeadlineExceeded, "job %s: its deadline has passed, its work item is missing, and no replica works on it", job.GetId())
}
