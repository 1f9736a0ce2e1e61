package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// cancelTimeout bounds a cancel, which races with the job's holder.
const cancelTimeout = 20 * time.Second

// Who cancels a job, as shown in its error.
const (
	byCaller   = "its caller"
	byOperator = "an operator"
)

func always(joblog.Entry) bool { return true }

// Cancel ends a job of either kind by compare-and-set. The holder learns of it from the log. An
// ended job is returned unchanged.
func (j *Jobs) Cancel(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	e, _, err := j.cancelWhile(ctx, n, byCaller, always)
	return e, err
}

// CancelForOperator cancels a job for an operator. It returns the job's status afterwards. Errors
// are explained as by Explain.
func (j *Jobs) CancelForOperator(ctx context.Context, n subject.JobName) (genbusv1.JobStatus, error) {
	e, _, err := j.cancelWhile(ctx, n, byOperator, always)
	if err != nil {
		return genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED, Explain(ctx, n, err)
	}
	return e.Job.GetStatus(), nil
}

// CancelIf cancels a job for an operator if holds is true for the log entry at the compare-and-set.
// It reports whether this call ended the job.
func (j *Jobs) CancelIf(ctx context.Context, n subject.JobName, holds func(joblog.Entry) bool) (cancelled bool, err error) {
	_, cancelled, err = j.cancelWhile(ctx, n, byOperator, holds)
	if err != nil {
		err = Explain(ctx, n, err)
	}
	return cancelled, err
}

// cancelWhile tries to end a job for as long as holds is true, and reports whether it did.
func (j *Jobs) cancelWhile(ctx context.Context, n subject.JobName, by string, holds func(joblog.Entry) bool) (e joblog.Entry, cancelled bool, err error) {
	if e, err = j.getLogged(ctx, n); err != nil || e.Terminal() {
		return e, false, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, cancelTimeout,
		errcode.New(errcode.AcceptanceUnknown, "cancel %s: no answer within %s; it may have been stored", n.ID, cancelTimeout))
	defer stop()
	for !e.Terminal() && holds(e) {
		if e, cancelled, err = j.cancelAt(ctx, e, by); err != nil {
			return joblog.Entry{}, false, Explain(ctx, n, err)
		}
	}
	return e, cancelled, nil
}

// cancelAt tries to end the job in the state e. If another writer was first, it returns the job's
// new state.
func (j *Jobs) cancelAt(ctx context.Context, e joblog.Entry, by string) (_ joblog.Entry, won bool, err error) {
	next, err := task.Cancelled(e.Job, j.now(), cancelled(e.Job, by).TaskError())
	if err != nil {
		return joblog.Entry{}, false, err
	}
	ended, err := j.log.Commit(ctx, next, e.Seq)
	var lost *joblog.LostError
	if errors.As(err, &lost) {
		return lost.Current, false, nil
	}
	if err != nil {
		return joblog.Entry{}, false, err
	}
	j.finish(ctx, ended)
	return ended, true, nil
}

// finish stores the feed copy, even if the caller has left, and removes the job from the queue. The
// cancel is valid without either: the job's holder stores the copy before it acknowledges the work
// item.
func (j *Jobs) finish(ctx context.Context, e joblog.Entry) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer stop()
	if err := j.log.Finish(ctx, e); err != nil {
		j.logger.WarnContext(ctx, "could not add cancelled job to feed yet", telemetry.KeyJobID, e.Job.GetId(), telemetry.KeyError, err)
		return
	}
	if err := j.queue.RemoveEnded(ctx, e); err != nil {
		j.logger.WarnContext(ctx, "could not remove cancelled job from queue", telemetry.KeyJobID, e.Job.GetId(), telemetry.KeyError, err)
	}
}

func cancelled(job task.Job, by string) *errcode.Error {
	message := fmt.Sprintf("%s was cancelled by %s after its submission; the upstream may still finish it and charge for it", job.GetId(), by)
	if task.Untouched(job) {
		message = fmt.Sprintf("%s was cancelled by %s before an upstream accepted it; nothing was charged", job.GetId(), by)
	}
	return &errcode.Error{Code: errcode.Cancelled, Message: message, JobID: job.GetId()}
}

// Erase cancels an unfinished job and removes everything stored about it. Afterwards the same
// request id creates a new job.
func (j *Jobs) Erase(ctx context.Context, n subject.JobName) error {
	e, err := j.Cancel(ctx, n)
	if err != nil {
		return err
	}
	if err := j.eraser.Erase(ctx, e); err != nil {
		return Explain(ctx, n, err)
	}
	return nil
}
