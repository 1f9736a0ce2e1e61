package consumer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// bury stores the request as a dead letter, before the task ends: the other order
// would lose it in a crash.
func (j *videoJob) bury(ctx context.Context, f *fault.Error) (Outcome, bool) {
	item, err := j.workItem(ctx)
	if err == nil {
		attempt := strconv.FormatUint(uint64(j.entry.Job.GetExecution().GetAttempt()), 10)
		err = j.putEnd(ctx, item, j.entry.Job, f, attempt)
	}
	if err != nil {
		j.Logger.Error("the dead letter could not be written", j.attrs("error", err)...)
		j.confirmLater()
		return HoldFor(retryLog), false
	}
	j.buried = true
	return Outcome{}, true
}

// endLevel is how loud the end of a job is: one that leaves a dead letter is
// somebody's to look at.
func endLevel(letter bool) slog.Level {
	if letter {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// endAttrs is what the log says of a job's end.
func endAttrs(e tasklog.Entry) []any {
	return jobAttrs(e.Name(), e.Job.GetExecution().GetRoute(), "status", task.StatusWord(e.Job.GetStatus()), "code", e.Job.GetError().GetCode())
}

// buryLost stores the request of a job of which the log has nothing.
func (c *Consumer) buryLost(ctx context.Context, item *genbusv1.WorkItem, f *fault.Error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	return c.putEnd(ctx, item, nil, f, "lost")
}

// putEnd stores the letter of an accepted job that ends with f; job is what its log
// says, nil where the log has not begun. The end of an attached job whose task no poll
// has found says nothing of that task: its letter is the one that it was made of.
func (c *Consumer) putEnd(ctx context.Context, item *genbusv1.WorkItem, job task.Job, f *fault.Error, occasion string) error {
	if job == nil {
		job = task.FromWork(item).Job
	}
	if job.GetExecution().GetUnconfirmed() != "" {
		return c.putUnfound(ctx, item, job, f.Code)
	}
	return c.dead.Put(ctx, deadItem(item, job, f), item.GetId(), occasion)
}

// orphaned keeps the id of an upstream task that no job owns.
func (j *videoJob) orphaned(ctx context.Context, s upstream.Submission, out Outcome) Outcome {
	f := fault.New(fault.OrphanedSubmission, "upstream %s has task %s for job %s, which could no longer record it", j.assigned.upstream(), s.UpstreamID, j.name.ID)
	letter := deadItem(j.item, j.entry.Job, f)
	letter.Attempt = j.began
	letter.Upstream, letter.UpstreamKey = j.assigned.upstream(), j.assigned.key()
	letter.UpstreamTaskId, letter.UpstreamTicket = s.UpstreamID, fault.Clip(s.Ticket, 256)
	// Each task is paid for: no two of one job are the same letter.
	occasion := fmt.Sprintf("%d.%x", j.began, sha256.Sum256([]byte(letter.GetUpstream()+"\x00"+s.UpstreamID)))
	for {
		try, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
		err := j.dead.Put(try, letter, j.name.ID, occasion)
		cancel()
		if err == nil {
			j.Logger.Warn("an orphaned submission is kept as a dead letter", j.attrs("upstream", j.assigned.upstream(), telemetry.KeyUpstreamID, s.UpstreamID)...)
			return out
		}
		j.Logger.Error("an orphaned submission could not be kept", j.attrs("upstream", j.assigned.upstream(), telemetry.KeyUpstreamID, s.UpstreamID, "error", err)...)
		if broker.Wait(ctx, retryLog) != nil {
			return out // the log line is all that is left
		}
	}
}

// buryUnfound writes the letter of an attached task anew that no poll has found
// before its job ended, whoever ended it: the id that it was attached with may have
// been wrong.
func (j *videoJob) buryUnfound(ctx context.Context) (Outcome, bool) {
	if j.buried || !unfound(j.entry.Job) {
		return Outcome{}, true
	}
	item, err := j.workItem(ctx)
	if err == nil {
		err = j.putUnfound(ctx, item, j.entry.Job, fault.Code(j.entry.Job.GetError().GetCode()))
	}
	if err != nil {
		j.Logger.Error("the dead letter could not be written", j.attrs("error", err)...)
		j.confirmLater()
		return HoldFor(retryLog), false
	}
	j.buried = true
	return Outcome{}, true
}

func unfound(job task.Job) bool {
	_, is := task.Unfound(job)
	return is
}

// putUnfound stores the letter that an attached job was made of as it was, but for
// the job, which ends with a code: it names the upstream's id that it named then.
func (c *Consumer) putUnfound(ctx context.Context, item *genbusv1.WorkItem, job task.Job, end fault.Code) error {
	code := job.GetExecution().GetUnconfirmed()
	f := fault.New(fault.Code(code), "job %s was attached to task %q of upstream %s, and ended (%s); no poll is known to have found that task there",
		item.GetId(), item.GetAttached().GetUpstreamTaskId(), job.GetExecution().GetUpstream(), end)
	letter := deadItem(item, job, f)
	letter.UpstreamTaskId = item.GetAttached().GetNamed()
	if err := c.dead.Put(ctx, letter, item.GetId(), "unfound"); err != nil {
		return err
	}
	c.Logger.Warn("an attached task was never found; its dead letter is there again", jobAttrs(nameOf(item), item.GetRoute(), "code", code)...)
	return nil
}

// workItem is the task's work item. A submitted task has let go of it; the stream
// holds it until the task's end. Where the stream was lost, so is the request, and what
// the log knows of it is left.
func (j *videoJob) workItem(ctx context.Context) (*genbusv1.WorkItem, error) {
	if j.item != nil {
		return j.item, nil
	}
	stored, err := j.Queue.Items(ctx, j.name)
	if err != nil {
		return nil, fmt.Errorf("read the work item again: %w", err)
	}
	for _, s := range stored {
		item, err := s.Decode()
		if err == nil && sameRequest(item, j.entry) {
			return item, nil
		}
	}
	if removed, err := j.Queue.Removed(ctx, j.delivery().seq); err != nil || removed {
		return nil, errors.Join(errors.New("the work item is gone"), err)
	}
	return remembered(j.video()), nil
}

// deadItem is the letter of an accepted job: its request, and where the request
// went. job is what its log says; nil where the log has not begun.
func deadItem(item *genbusv1.WorkItem, job task.Job, f *fault.Error) *genbusv1.DeadLetter {
	letter := &genbusv1.DeadLetter{
		Error: f.TaskError(), Id: item.GetId(), Kind: item.GetKind(), Tenant: item.GetTenant(),
		Data: item.GetBody(), DataRef: item.GetBodyRef(), Work: withoutBody(item),
	}
	if job == nil {
		job = task.FromWork(item).Job
	}
	x := job.GetExecution()
	letter.Upstream, letter.UpstreamKey, letter.UpstreamTicket = x.GetUpstream(), x.GetUpstreamKey(), x.GetUpstreamTicket()
	letter.Attempt = x.GetAttempt()
	if v, ok := job.(*genbusv1.VideoTask); ok {
		letter.UpstreamTaskId = v.GetUpstreamTaskId()
	}
	return letter
}

// withoutBody copies an item without its body, which the letter has beside it.
func withoutBody(item *genbusv1.WorkItem) *genbusv1.WorkItem {
	out := proto.CloneOf(item)
	out.Body, out.BodyRef = nil, nil
	return out
}
