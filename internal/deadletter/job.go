package deadletter

import (
	"context"
	"crypto/sha256"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// jobTimeout bounds the write of one dead letter.
const jobTimeout = 30 * time.Second

// PutJob stores the dead letter of an accepted job that ends with f. job is its logged state, or
// nil if it was never logged. lookUps are the lookups of its task. Concurrent holders produce only
// one dead letter per attempt and code. For an attached job whose task was never found, PutJob
// restores the dead letter from which the job was made. The write continues if ctx ends.
func (d Store) PutJob(ctx context.Context, item *genbusv1.WorkItem, job task.Job, f *errcode.Error, lookUps ...*genbusv1.LookUp) error {
	if job == nil {
		job = task.FromWork(item).Job
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout)
	defer cancel()
	if job.GetExecution().GetUnconfirmed() != "" {
		return d.PutUnfound(ctx, item, job, f.Code)
	}
	attempt := strconv.FormatUint(uint64(job.GetExecution().GetAttempt()), 10)
	letter := FromJob(item, job, f)
	letter.LookUps = lookUps
	return d.Put(ctx, letter, item.GetId(), attempt)
}

// PutReply stores the dead letter of a chat whose reply fits neither its event nor the object
// store. The dead letter contains the reply or, if digest is set, only the reply's size and
// SHA-256.
func (d Store) PutReply(ctx context.Context, item *genbusv1.WorkItem, job task.Job, f *errcode.Error, reply []byte, digest bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout)
	defer cancel()
	attempt := strconv.FormatUint(uint64(job.GetExecution().GetAttempt()), 10)
	letter := FromJob(item, job, f)
	if letter.Reply = reply; digest {
		sum := sha256.Sum256(reply)
		letter.Reply, letter.ReplyCut = nil, &genbusv1.Cut{Size: uint64(len(reply)), Sha256: sum[:]}
	}
	return d.Put(ctx, letter, item.GetId(), attempt)
}

// PutEnd stores the dead letter that the end of a job requires (task.LeavesDeadLetter).
func (d Store) PutEnd(ctx context.Context, item *genbusv1.WorkItem, job task.Job, lookUps ...*genbusv1.LookUp) error {
	end := errcode.Code(job.GetError().GetCode())
	if _, unfound := task.Unfound(job); unfound {
		return d.PutUnfound(ctx, item, job, end)
	}
	return d.PutJob(ctx, item, job, errcode.New(errcode.SubmissionUnknown,
		"job %s ended (%s) while it was unknown whether upstream %s had accepted it", job.GetId(), end, job.GetExecution().GetUpstream()), lookUps...)
}

// PutUnfound restores the dead letter from which an attached job was made, with its original
// upstream task ID. end is the error code with which the job ends.
func (d Store) PutUnfound(ctx context.Context, item *genbusv1.WorkItem, job task.Job, end errcode.Code) error {
	code := job.GetExecution().GetUnconfirmed()
	f := errcode.New(errcode.Code(code), "job %s was attached to task %q of upstream %s and ended (%s); no recorded poll found that task",
		item.GetId(), item.GetAttached().GetUpstreamTaskId(), job.GetExecution().GetUpstream(), end)
	letter := FromJob(item, job, f)
	letter.UpstreamTaskId = item.GetAttached().GetNamed()
	if err := d.Put(ctx, letter, item.GetId(), "unfound"); err != nil {
		return err
	}
	d.Logger.Warn("restored dead letter, attached task was never found", telemetry.JobAttrs(joblog.NameOf(item), item.GetRoute(), "code", code)...)
	return nil
}

// FromJob builds the dead letter of an accepted job from its work item and its logged state.
func FromJob(item *genbusv1.WorkItem, job task.Job, f *errcode.Error) *genbusv1.DeadLetter {
	x := job.GetExecution()
	letter := &genbusv1.DeadLetter{
		Error: f.TaskError(), Id: item.GetId(), Kind: item.GetKind(), Tenant: item.GetTenant(), Data: item.GetBody(), Work: withoutBody(item),
		Upstream: x.GetUpstream(), UpstreamKey: x.GetUpstreamKey(), UpstreamTicket: x.GetUpstreamTicket(), Attempt: x.GetAttempt(),
		OwnTaskId: x.GetOwnTaskId(),
	}
	if len(letter.GetData()) == 0 { // otherwise the referenced body is only a copy kept for the route
		letter.DataRef = item.GetBodyRef()
	}
	// Two items of one request must produce the same dead letter.
	if at := job.GetCreatedAt(); at != nil {
		letter.Work.AcceptedAt = at
	}
	if v, ok := job.(*genbusv1.VideoTask); ok {
		letter.UpstreamTaskId = v.GetUpstreamTaskId()
	}
	return letter
}

// withoutBody copies an item without its body, which the dead letter stores separately.
func withoutBody(item *genbusv1.WorkItem) *genbusv1.WorkItem {
	out := proto.CloneOf(item)
	out.Body, out.BodyRef = nil, nil
	return out
}

// WorkItemFromLog rebuilds a work item from the log. The item lacks the request, but it is
// sufficient for attaching the upstream's task.
func WorkItemFromLog(v *genbusv1.VideoTask) *genbusv1.WorkItem {
	x := v.GetExecution()
	item := &genbusv1.WorkItem{
		Id: v.GetId(), Kind: task.Kind(v), Tenant: v.GetTenant(), Route: x.GetRoute(), Model: v.GetModel(), Protocol: v.GetProtocol(),
		Fingerprint: x.GetFingerprint(), RequestId: v.GetRequestId(), Labels: v.GetLabels(), RetryOf: v.GetRetryOf(),
		AcceptedAt: v.GetCreatedAt(), ExpiresAt: v.GetExpiresAt(), Archive: proto.Bool(x.GetArchive()), Size: v.GetSize(), Seconds: v.GetSeconds(),
		Form: x.GetForm(),
	}
	if x.GetUnconfirmed() != "" {
		item.Attached = &genbusv1.AttachedTask{
			Upstream: x.GetUpstream(), UpstreamKey: x.GetUpstreamKey(), UpstreamTaskId: v.GetUpstreamTaskId(), UpstreamTicket: x.GetUpstreamTicket(),
			Attempt: x.GetAttempt(), Deadline: x.GetDeadline(), Code: x.GetUnconfirmed(), Named: x.GetUnconfirmedNamed(), OwnTaskId: x.GetOwnTaskId(),
		}
	}
	return item
}
