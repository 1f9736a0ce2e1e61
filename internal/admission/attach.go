package admission

import (
	"context"
	"errors"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// attach looks the job up in the log. If the job's body differs from the request's, it returns
// idempotency_key_reused.
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

// unlessAccepted returns refusal unless the request was accepted earlier. If it was, unlessAccepted
// returns the job, regardless of the current time, configuration and queue. It reads the work items
// before the log. A job may have an item but no log yet, and an item is removed only after the log
// contains the job's end. If the items or the log cannot be read, unlessAccepted does not refuse
// the request, because that would be a guess.
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
