package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// maxRetryKey bounds the idempotency key of a retry, in bytes.
const maxRetryKey = 255

// Retry submits the request of the job e, or an edited one, as a new job. Concurrent and repeated
// calls for the same job with the same key create only one job.
func (p Requests) Retry(ctx context.Context, e joblog.Entry, m *genbusv1.RetryJobRequest) (joblog.Entry, error) {
	if n := len(m.GetIdempotencyKey()); n > maxRetryKey {
		return joblog.Entry{}, errcode.Invalid([]errcode.Violation{{
			Field: "idempotency_key", Description: fmt.Sprintf("has %d bytes; the limit is %d", n, maxRetryKey),
		}})
	}
	source := admission.ByRetry(e.Job.GetId(), e.Job.GetCreatedAt().AsTime(), m.GetIdempotencyKey())
	if made, err := p.madeBy(ctx, e, source, m.GetRequestJson()); !errors.Is(err, joblog.ErrNotFound) {
		return made, err
	}
	if err := p.mayRetry(ctx, e); err != nil {
		return joblog.Entry{}, err
	}
	data := m.GetRequestJson()
	if len(data) == 0 {
		own, err := p.find(ctx, e)
		if err != nil {
			return joblog.Entry{}, err
		}
		if data = own.data; len(data) == 0 {
			return joblog.Entry{}, errcode.New(errcode.RequestNotKept,
				"the request of job %s is not stored; provide the whole request, or ask the caller to send it again; set keep_requests on the route to keep later requests", e.Job.GetId())
		}
	}
	r := retryOfJob(e.Job, data)
	r.Source, r.Ingress = &source, telemetry.IngressGRPC
	made, err := p.Admission.Admit(ctx, r)
	if f, ok := errors.AsType[*errcode.Error](err); ok && f.Code == errcode.IdempotencyKeyReused {
		return joblog.Entry{}, keyReused(e, f.JobID)
	}
	return made, err
}

// madeBy returns the job that an earlier call created, or joblog.ErrNotFound. It creates nothing
// and works in any state of the old job and its dead letters. If edited is empty and the old
// request is lost, madeBy returns the job without comparing the requests.
func (p Requests) madeBy(ctx context.Context, e joblog.Entry, source admission.Source, edited []byte) (joblog.Entry, error) {
	n := e.Name()
	n.ID = admission.Request{Kind: n.Kind, Tenant: n.Tenant, Source: &source}.JobID()
	made, err := p.DeadLetters.Log.Get(ctx, n)
	if err != nil {
		return joblog.Entry{}, err
	}
	data := edited
	if len(data) == 0 {
		own, err := p.find(ctx, e)
		if err != nil {
			return joblog.Entry{}, err
		}
		data = own.data
	}
	if len(data) == 0 {
		return made, nil
	}
	request := body.Parse(data)
	if err := request.Err(); err != nil {
		return joblog.Entry{}, body.Fault(err)
	}
	if sum := request.Fingerprint(); !bytes.Equal(sum[:], made.Job.GetExecution().GetFingerprint()) {
		return joblog.Entry{}, keyReused(e, n.ID)
	}
	return made, nil
}

func keyReused(e joblog.Entry, made string) error {
	return errcode.New(errcode.IdempotencyKeyReused,
		"job %s was already submitted again with this idempotency_key, as job %s with another request; use another key for another job", e.Job.GetId(), made).ForJob(made)
}

// removePatience bounds a retry's wait for the holder of the old job. The holder usually finishes
// at once. If it is waiting for its upstream, the caller must try again.
const removePatience = 2 * time.Second

// mayRetry refuses a retry if the upstream could charge for both jobs. This is the case if the old
// job is still running, if its holder may be about to write a dead letter, or if a dead letter says
// that the upstream may have the task. A dead letter can become a job itself, so it must be
// resolved first.
func (p Requests) mayRetry(ctx context.Context, e joblog.Entry) error {
	if !e.Terminal() {
		return errcode.New(errcode.NotTerminal, "%s is %s; cancel it, or wait until it ends", e.Job.GetId(), task.StatusWord(e.Job.GetStatus()))
	}
	// Dead letters are also written after the end of a job, for a late answer or an attached task
	// that was never found. The holder removes the work item once they are stored. A job that was
	// never submitted gets no dead letters.
	if e.Job.GetExecution().GetFirstSubmitAt() != nil {
		if err := p.Items.AwaitRemoved(ctx, e.Name(), removePatience); err != nil {
			return err
		}
	}
	letters, err := p.DeadLetters.ofJob(ctx, e.Name())
	if err != nil || len(letters) == 0 {
		return err
	}
	l := letters[0]
	return errcode.New(errcode.DeadLetterUnresolved,
		"job %s has dead letter %d (%s): its upstream may have its task and charge for both; redrive, attach or drop the dead letter", e.Job.GetId(), l.seq, l.GetError().GetCode())
}

// retryOfJob returns a request with the given body and the settings of an ended job.
func retryOfJob(job task.Job, data []byte) admission.Request {
	r := admission.Request{
		Kind: subject.Kind(task.Kind(job)), Tenant: job.GetTenant(), Body: body.Parse(data), Labels: job.GetLabels(), RetryOf: job.GetId(),
	}
	if v, ok := job.(*genbusv1.VideoTask); ok {
		x := v.GetExecution()
		archive := x.GetArchive()
		r.Protocol, r.Archive, r.Form = v.GetProtocol(), &archive, x.GetForm()
	}
	if at := job.GetExpiresAt(); at != nil && at.AsTime().After(time.Now()) {
		r.ExpiresAt = at.AsTime()
	}
	return r
}
