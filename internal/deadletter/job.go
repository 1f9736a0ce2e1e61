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

// jobTimeout bounds the write of one letter.
const jobTimeout = 30 * time.Second

// PutJob stores the letter of an accepted job that ends with f; job is what its log says, nil
// where the log has not begun, and lookUps are those for its task. One attempt has one letter
// with one code, whoever stores it. The end of an attached job whose task no poll has found says
// nothing of that task: its letter is the one that it was made of. The end of ctx does not cut a
// letter short.
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
	letter := Letter(item, job, f)
	letter.LookUps = lookUps
	return d.Put(ctx, letter, item.GetId(), attempt)
}

// PutReply stores the letter of a chat whose reply fits neither its event nor the object store. The
// letter contains the reply or, with digest, only its size and SHA-256.
func (d Store) PutReply(ctx context.Context, item *genbusv1.WorkItem, job task.Job, f *errcode.Error, reply []byte, digest bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), jobTimeout)
	defer cancel()
	attempt := strconv.FormatUint(uint64(job.GetExecution().GetAttempt()), 10)
	letter := Letter(item, job, f)
	if letter.Reply = reply; digest {
		sum := sha256.Sum256(reply)
		letter.Reply, letter.ReplyCut = nil, &genbusv1.Cut{Size: uint64(len(reply)), Sha256: sum[:]}
	}
	return d.Put(ctx, letter, item.GetId(), attempt)
}

// PutEnd stores the letter that the end of a job leaves (task.LeavesDeadLetter).
func (d Store) PutEnd(ctx context.Context, item *genbusv1.WorkItem, job task.Job, lookUps ...*genbusv1.LookUp) error {
	end := errcode.Code(job.GetError().GetCode())
	if _, unfound := task.Unfound(job); unfound {
		return d.PutUnfound(ctx, item, job, end)
	}
	return d.PutJob(ctx, item, job, errcode.New(errcode.SubmissionUnknown,
		"job %s ended (%s) while it was unknown whether upstream %s had accepted it", job.GetId(), end, job.GetExecution().GetUpstream()), lookUps...)
}

// PutUnfound stores the letter that an attached job was made of as it was, but for the
// job, which ends with a code: it names the upstream's id that it named then.
func (d Store) PutUnfound(ctx context.Context, item *genbusv1.WorkItem, job task.Job, end errcode.Code) error {
	code := job.GetExecution().GetUnconfirmed()
	f := errcode.New(errcode.Code(code), "job %s was attached to task %q of upstream %s and ended (%s); no recorded poll found that task",
		item.GetId(), item.GetAttached().GetUpstreamTaskId(), job.GetExecution().GetUpstream(), end)
	letter := Letter(item, job, f)
	letter.UpstreamTaskId = item.GetAttached().GetNamed()
	if err := d.Put(ctx, letter, item.GetId(), "unfound"); err != nil {
		return err
	}
	d.Logger.Warn("restored dead letter, attached task was never found", telemetry.JobAttrs(joblog.NameOf(item), item.GetRoute(), "code", code)...)
	return nil
}

// Letter is the letter of an accepted job: its request, and where the request went. job is
// what its log says.
func Letter(item *genbusv1.WorkItem, job task.Job, f *errcode.Error) *genbusv1.DeadLetter {
	x := job.GetExecution()
	letter := &genbusv1.DeadLetter{
		Error: f.TaskError(), Id: item.GetId(), Kind: item.GetKind(), Tenant: item.GetTenant(), Data: item.GetBody(), Work: withoutBody(item),
		Upstream: x.GetUpstream(), UpstreamKey: x.GetUpstreamKey(), UpstreamTicket: x.GetUpstreamTicket(), Attempt: x.GetAttempt(),
		OwnTaskId: x.GetOwnTaskId(),
	}
	if len(letter.GetData()) == 0 { // else it is in the object store only because its route keeps requests
		letter.DataRef = item.GetBodyRef()
	}
	// Of two items of one request the letter of the job is the same one.
	if at := job.GetCreatedAt(); at != nil {
		letter.Work.AcceptedAt = at
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
			Attempt: x.GetAttempt(), Deadline: x.GetDeadline(), Code: x.GetUnconfirmed(), Named: x.GetUnconfirmedNamed(), OwnTaskId: x.GetOwnTaskId(),
		}
	}
	return item
}
