package hold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
)

// errLetter says that a job cannot end, as its dead letter was not stored.
var errLetter = errors.New("the dead letter could not be written")

// Letters stores the dead letters of accepted jobs.
type Letters struct {
	publisher.DeadLetters
	Logger *slog.Logger
}

// Put stores the letter of an accepted job that ends with f; job is what its log says, nil
// where the log has not begun. The end of an attached job whose task no poll has found
// says nothing of that task: its letter is the one that it was made of. The end of ctx does
// not cut a letter short.
func (l Letters) Put(ctx context.Context, item *genbusv1.WorkItem, job task.Job, f *errcode.Error, occasion string) error {
	if job == nil {
		job = task.FromWork(item).Job
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CommitTimeout)
	defer cancel()
	if job.GetExecution().GetUnconfirmed() != "" {
		return l.PutUnfound(ctx, item, job, f.Code)
	}
	return l.DeadLetters.Put(ctx, Letter(item, job, f), item.GetId(), occasion)
}

// PutUnfound stores the letter that an attached job was made of as it was, but for the
// job, which ends with a code: it names the upstream's id that it named then.
func (l Letters) PutUnfound(ctx context.Context, item *genbusv1.WorkItem, job task.Job, end errcode.Code) error {
	code := job.GetExecution().GetUnconfirmed()
	f := errcode.New(errcode.Code(code), "job %s was attached to task %q of upstream %s, and ended (%s); no poll is known to have found that task there",
		item.GetId(), item.GetAttached().GetUpstreamTaskId(), job.GetExecution().GetUpstream(), end)
	letter := Letter(item, job, f)
	letter.UpstreamTaskId = item.GetAttached().GetNamed()
	if err := l.DeadLetters.Put(ctx, letter, item.GetId(), "unfound"); err != nil {
		return err
	}
	l.Logger.Warn("an attached task was never found; its dead letter is there again", Attrs(Name(item), item.GetRoute(), "code", code)...)
	return nil
}

// Letter is the letter of an accepted job: its request, and where the request went. job is
// what its log says.
func Letter(item *genbusv1.WorkItem, job task.Job, f *errcode.Error) *genbusv1.DeadLetter {
	x := job.GetExecution()
	letter := &genbusv1.DeadLetter{
		Error: f.TaskError(), Id: item.GetId(), Kind: item.GetKind(), Tenant: item.GetTenant(),
		Data: item.GetBody(), DataRef: item.GetBodyRef(), Work: withoutBody(item),
		Upstream: x.GetUpstream(), UpstreamKey: x.GetUpstreamKey(), UpstreamTicket: x.GetUpstreamTicket(), Attempt: x.GetAttempt(),
	}
	if v, ok := job.(*genbusv1.VideoTask); ok {
		letter.UpstreamTaskId = v.GetUpstreamTaskId()
	}
	return letter
}

// withoutBody copies an item without its body, which the letter has next to it.
func withoutBody(item *genbusv1.WorkItem) *genbusv1.WorkItem {
	out := proto.CloneOf(item)
	out.Body, out.BodyRef = nil, nil
	return out
}

// Bury stores the request as a dead letter, before the job ends: the other order would
// lose it in a crash.
func (j *Job) Bury(ctx context.Context, f *errcode.Error) error {
	item, err := j.workItem(ctx)
	if err == nil {
		attempt := strconv.FormatUint(uint64(j.entry.Job.GetExecution().GetAttempt()), 10)
		err = j.holder.Letters.Put(ctx, item, j.entry.Job, f, attempt)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLetter, err)
	}
	j.buried = true
	return nil
}

// buryUnfound writes the letter of an attached task again that no poll has found before
// its job ended: the id that it was attached with may have been wrong.
func (j *Job) buryUnfound(ctx context.Context) error {
	if _, unfound := task.Unfound(j.entry.Job); j.buried || !unfound {
		return nil
	}
	item, err := j.workItem(ctx)
	if err == nil {
		err = j.holder.Letters.PutUnfound(ctx, item, j.entry.Job, errcode.Code(j.entry.Job.GetError().GetCode()))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLetter, err)
	}
	j.buried = true
	return nil
}

// workItem is the job's work item. A submitted task has let go of it; the stream has it
// until the task's end. Where the stream was lost, so is the request, and what the log
// knows of it is left.
func (j *Job) workItem(ctx context.Context) (*genbusv1.WorkItem, error) {
	if j.item != nil {
		return j.item, nil
	}
	stored, err := j.holder.Queue.Items(ctx, j.name)
	if err != nil {
		return nil, fmt.Errorf("read the work item again: %w", err)
	}
	for _, s := range stored {
		if item, err := s.Decode(); err == nil && task.SameRequest(item, j.entry.Job.GetExecution()) {
			return item, nil
		}
	}
	if removed, err := j.holder.Queue.Removed(ctx, j.message.delivery().Seq); err != nil || removed {
		return nil, errors.Join(errors.New("the work item is gone"), err)
	}
	v, ok := j.entry.Job.(*genbusv1.VideoTask)
	if !ok {
		return nil, errors.New("the work item is gone")
	}
	return WorkItemFromLog(v), nil
}

// WorkItemFromLog is what the log knows of a work item: everything that attaching the
// upstream's task needs, and not the request.
func WorkItemFromLog(v *genbusv1.VideoTask) *genbusv1.WorkItem {
	x := v.GetExecution()
	item := &genbusv1.WorkItem{
		Id: v.GetId(), Kind: task.Kind(v), Tenant: v.GetTenant(), Route: x.GetRoute(), Model: v.GetModel(), Protocol: v.GetProtocol(),
		Fingerprint: x.GetFingerprint(), RequestId: v.GetRequestId(), Labels: v.GetLabels(), RetryOf: v.GetRetryOf(),
		AcceptedAt: v.GetCreatedAt(), ExpiresAt: v.GetExpiresAt(), Archive: proto.Bool(x.GetArchive()), Size: v.GetSize(), Seconds: v.GetSeconds(),
	}
	if x.GetUnconfirmed() != "" {
		item.Attached = &genbusv1.AttachedTask{
			Upstream: x.GetUpstream(), UpstreamKey: x.GetUpstreamKey(), UpstreamTaskId: v.GetUpstreamTaskId(), UpstreamTicket: x.GetUpstreamTicket(),
			Attempt: x.GetAttempt(), Deadline: x.GetDeadline(), Code: x.GetUnconfirmed(), Named: x.GetUnconfirmedNamed(),
		}
	}
	return item
}

// Body reads the body of the work item, wherever it is. It is the one place that decides
// that an accepted request is lost: it fails with broker.ErrBodyLost only when the body was
// missing twice, SecondLook apart.
func (j *Job) Body(ctx context.Context) ([]byte, error) {
	if j.item.GetBodyRef() == nil {
		return j.item.GetBody(), nil
	}
	data, err := j.holder.Bodies.Get(ctx, publisher.BodyOf(j.item.GetBodyRef()))
	if errors.Is(err, broker.ErrBodyLost) && !j.missed.sure(time.Now()).IsZero() {
		return nil, fmt.Errorf("not found at first, and looked for again: %s", err.Error()) // not lost yet
	}
	return data, err
}
