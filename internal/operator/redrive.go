package operator

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Redrive resubmits the request of a dead letter as a new job and removes the dead letter.
// Concurrent and repeated calls create only one job, so a call that failed after the job was
// accepted can be repeated.
func (p *DeadLetterActions) Redrive(ctx context.Context, seq uint64) (joblog.Entry, error) {
	l, err := p.deadLetter(ctx, seq)
	if err != nil {
		return joblog.Entry{}, err
	}
	r, release, err := p.requestOf(ctx, l)
	defer release()
	if err != nil {
		return joblog.Entry{}, err
	}
	if err := p.refuseUnlessFailed(ctx, l); err != nil {
		return joblog.Entry{}, err
	}
	e, err := p.resolve(ctx, l, r.Request)
	if err == nil {
		p.Uploads.Remove(ctx, r.Upload) // nothing else refers to the upload
	}
	return e, err
}

// refuseUnlessFailed prevents paying a second time for a job that has completed or may still
// complete. This can happen because a dead letter is written before its job ends, and another
// replica may then continue or complete the job. An orphaned submission is never refused, because
// it concerns an additional upstream task. Neither is the dead letter of an earlier job with the
// same ID.
func (p *DeadLetterActions) refuseUnlessFailed(ctx context.Context, l deadLetter) error {
	if deadletter.IsRejected(l.seq) || l.GetId() == "" || errcode.Code(l.GetError().GetCode()) == errcode.OrphanedSubmission {
		return nil
	}
	e, err := p.Log.Get(ctx, subject.JobName{Kind: subject.Kind(l.GetKind()), Tenant: l.GetTenant(), ID: l.GetId()})
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		return nil
	case err != nil:
		return errcode.NotAccepted(broker.Reason(err), err)
	case !task.SameRequest(l.GetWork(), e.Job.GetExecution()):
		return nil
	case !e.Terminal():
		return errcode.New(errcode.NotTerminal, "dead letter %d was not sent again: its job %s is %s; cancel the job, or wait until it ends", l.seq, l.GetId(), task.StatusWord(e.Job.GetStatus())).ForJob(l.GetId())
	case e.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		return nil
	}
	return errcode.New(errcode.DeadLetterResolved, "dead letter %d was not sent again: its job %s has completed; drop the letter", l.seq, l.GetId()).ForJob(l.GetId())
}

// resolve creates the job for a dead letter, or finds it if it already exists, and removes the dead
// letter.
func (p *DeadLetterActions) resolve(ctx context.Context, l deadLetter, r admission.Request) (joblog.Entry, error) {
	entry, found, err := p.acceptedAs(ctx, l, r)
	if !found && err == nil {
		source := l.source()
		r.Source, r.RequestID, r.Resolves, r.Ingress = &source, "", true, telemetry.IngressGRPC
		entry, err = p.Admission.Admit(ctx, r)
	}
	if f := errcode.From(err); f != nil {
		if f.Code == errcode.IdempotencyKeyReused {
			f = errcode.New(errcode.DeadLetterResolved, "dead letter %d already became job %s by another action; check that job, then drop the letter", l.seq, f.JobID).ForJob(f.JobID)
		}
		return joblog.Entry{}, f
	}
	if err := p.remove(ctx, l); err != nil {
		return joblog.Entry{}, errcode.New(errcode.BrokerUnavailable,
			"job %s was accepted, but dead letter %d could not be removed; call again (makes no second job): %s", entry.Job.GetId(), l.seq, broker.Reason(err)).
			Because(err).ForJob(entry.Job.GetId()).WithRetryAfter(time.Second)
	}
	return entry, nil
}

// acceptedAs returns the job of a rejected message that was accepted after all. This happens if the
// replica died between writing the dead letter and recording the refusal, and the message was then
// redelivered under another configuration. A job entry without a route is a recorded refusal and
// does not count.
func (p *DeadLetterActions) acceptedAs(ctx context.Context, l deadLetter, r admission.Request) (e joblog.Entry, found bool, err error) {
	if !deadletter.IsRejected(l.seq) || l.GetId() == "" {
		return joblog.Entry{}, false, nil
	}
	n := subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: l.GetId()}
	if e, err = p.Log.Get(ctx, n); errors.Is(err, joblog.ErrNotFound) {
		e, err = p.Items.Accepted(ctx, n)
	}
	if errors.Is(err, joblog.ErrNotFound) {
		return joblog.Entry{}, false, nil
	}
	if err != nil {
		return joblog.Entry{}, false, errcode.NotAccepted(broker.Reason(err), err)
	}
	x := e.Job.GetExecution()
	return e, x.GetRoute() != "" && bytes.Equal(x.GetFingerprint(), r.Fingerprint()), nil
}

// source identifies the job that is created from a dead letter. All dead letters of a job have the
// same source, even if the next holder of its work item writes a resolved one again. But each
// additional upstream task has its own source, and the source of a rejected message is its place in
// the inbox.
func (l deadLetter) source() admission.Source {
	if deadletter.IsRejected(l.seq) {
		return admission.ByRejected(l.message)
	}
	var paid string
	if errcode.Code(l.GetError().GetCode()) == errcode.OrphanedSubmission {
		paid = strings.Join([]string{l.GetUpstream(), l.GetUpstreamKey(), l.GetUpstreamTaskId()}, "\x00")
	}
	return admission.ByDeadLetterOf(l.GetId(), l.GetWork().GetAcceptedAt().AsTime(), paid)
}

// requestOf returns the request in a dead letter. A rejected message is decoded again. release is
// never nil. The caller must call it after the admission.
func (p *DeadLetterActions) requestOf(ctx context.Context, l deadLetter) (r natsreq.Incoming, release func(), err error) {
	if l.GetCut() != nil {
		return r, func() {}, errcode.New(errcode.DeadLetterUnusable,
			"dead letter %d: only %d of %d bytes of its request are stored; ask the caller to send it again, then drop the dead letter", l.seq, len(l.GetData()), l.GetCut().GetSize())
	}
	data, err := p.data(ctx, l)
	if err != nil {
		return r, func() {}, err
	}
	if deadletter.IsRejected(l.seq) {
		return p.messageOf(ctx, l, data)
	}
	if l.GetWork() == nil || len(data) == 0 {
		return r, func() {}, errcode.New(errcode.DeadLetterUnusable, "dead letter %d has no request to send again", l.seq)
	}
	r.Request = accepted(l, data)
	return r, func() {}, nil
}

// uploadWait bounds a redrive's wait for a slot to read an upload.
const uploadWait = 2 * time.Second

// messageOf decodes a message that was never accepted and reads its upload again. It ignores an
// expiry time that has passed.
func (p *DeadLetterActions) messageOf(ctx context.Context, l deadLetter, data []byte) (r natsreq.Incoming, release func(), err error) {
	header := nats.Header{}
	for _, h := range l.GetHeaders() {
		header[h.GetKey()] = h.GetValues()
	}
	if r, err = natsreq.Decode(p.Names, l.GetSubject(), header, data); err != nil {
		return r, func() {}, err
	}
	release, err = p.Uploads.Complete(ctx, &r, uploadWait)
	if errcode.CodeOf(err) == errcode.InputLost {
		return r, release, p.withoutUpload(ctx, l)
	}
	if err != nil {
		return r, release, err
	}
	if !r.ExpiresAt.After(time.Now()) {
		r.ExpiresAt = time.Time{}
	}
	// If the request ID belongs to another job, the new job is not a retry of that job.
	if l.GetError().GetCode() != string(errcode.IdempotencyKeyReused) {
		r.RetryOf = retryOf(l, r.RetryOf)
	}
	return r, release, nil
}

// withoutUpload returns the error for a missing upload. Either the upload is lost, or another
// caller has just redriven the dead letter.
func (p *DeadLetterActions) withoutUpload(ctx context.Context, l deadLetter) error {
	if _, err := p.deadLetter(ctx, l.seq); err != nil {
		return err
	}
	return errcode.New(errcode.DeadLetterUnusable,
		"dead letter %d refers to a stored request that the tenant's object store no longer has (kept for nats.streams.tasks.max_age); "+
			"ask the caller to upload and send it again, then drop the dead letter", l.seq)
}

// accepted returns the request in a dead letter of an accepted job.
func accepted(l deadLetter, data []byte) admission.Request {
	work := l.GetWork()
	r := admission.Request{
		Kind: subject.Kind(l.GetKind()), Tenant: l.GetTenant(), Body: body.Parse(data), Labels: work.GetLabels(), RetryOf: retryOf(l, ""),
	}
	if r.Kind == subject.Video {
		archive := work.GetArchive()
		r.Protocol, r.Archive, r.Form = work.GetProtocol(), &archive, work.GetForm()
	}
	if at := work.GetExpiresAt(); at != nil && at.AsTime().After(time.Now()) {
		r.ExpiresAt = at.AsTime()
	}
	return r
}

// retryOf returns the dead letter's job ID or, if there is none, the value of otherwise.
func retryOf(l deadLetter, otherwise string) string {
	if _, ok := subject.KindOf(l.GetId()); ok {
		return l.GetId()
	}
	return otherwise
}
