package admission

import (
	"context"
	"errors"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// attach looks for the job in the log: there is none, it is this request's, or
// the key was used for another body.
func (a *Admission) attach(ctx context.Context, r Request, c Checked) (entry joblog.Entry, found bool, err error) {
	entry, err = a.log.Probe(ctx, subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
	if errors.Is(err, joblog.ErrNotFound) {
		return joblog.Entry{}, false, nil
	}
	if err != nil {
		return joblog.Entry{}, false, unavailable(err)
	}
	return entry, true, sameBody(entry.Job.GetExecution().GetFingerprint(), c)
}

// unlessAccepted refuses a request, unless it was accepted before: then it is answered with its
// job, whatever the time, the configuration and the queue are by now. The item of that job may be
// stored with nothing in the log yet. It leaves when the log has the end, so that it is looked
// for first. Where neither can be read, the refusal would be a guess.
func (a *Admission) unlessAccepted(ctx context.Context, r Request, c Checked, refusal error) (joblog.Entry, error) {
	if c.Fresh {
		return joblog.Entry{}, refusal
	}
	name := subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID}
	entry, err := a.queue.Items.Accepted(ctx, name)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		entry, found, err := a.attach(ctx, r, c)
		if !found && err == nil {
			err = refusal
		}
		return entry, err
	case err != nil:
		return joblog.Entry{}, unavailable(err)
	case entry.Seq == 0:
		a.queue.LogLater(name)
		return joblog.Entry{}, acceptanceFault(c.ID, true, joblog.ErrUncertain)
	default:
		return entry, sameBody(entry.Job.GetExecution().GetFingerprint(), c)
	}
}

func sameBody(fingerprint []byte, c Checked) error {
	if string(fingerprint) == string(c.Fingerprint) {
		return nil
	}
	return errcode.New(errcode.IdempotencyKeyReused,
		"request_id (Idempotency-Key) was already used for job %s with another body; use a new one for a new body", c.ID).ForJob(c.ID)
}

func unavailable(err error) error { return errcode.NotAccepted(broker.Reason(err), err) }
