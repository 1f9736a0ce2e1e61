package core

import (
	"context"
	"errors"
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/operator/erasure"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Jobs is what callers do with jobs of either kind.
type Jobs struct {
	admission *admission.Admission
	queue     *queue.Queue
	log       *joblog.Log
	index     *jobindex.Index
	eraser    erasure.Eraser
	logger    *slog.Logger
	now       func() time.Time
}

// Submit accepts a job, or attaches to the one that the request names.
func (j *Jobs) Submit(ctx context.Context, r admission.Request) (joblog.Entry, error) {
	return j.admission.Admit(ctx, r)
}

// Get reads a job of a tenant. The job of another tenant does not exist. A job
// whose first event is not stored yet has no sequence.
func (j *Jobs) Get(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	if !wellFormed(n) {
		return joblog.Entry{}, notFound(n)
	}
	if err := j.log.Trouble(); err != nil {
		return joblog.Entry{}, Explain(ctx, n, err)
	}
	e, err := j.log.Get(ctx, n)
	if errors.Is(err, joblog.ErrNotFound) {
		e, err = j.queue.Items.Accepted(ctx, n)
	}
	if err != nil {
		return joblog.Entry{}, Explain(ctx, n, err)
	}
	return e, nil
}

// NoticeRoutePaused is the notice, in the header genbus-notice of an answer about a job, that the
// job waits because an operator has paused its route.
const NoticeRoutePaused = string(errcode.RoutePaused)

// Notice is what a caller is told of a job in addition to its state; empty for nothing. What is known
// of the route is some seconds old.
func (j *Jobs) Notice(job task.Job) string {
	if job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED {
		return ""
	}
	return j.NoticeOfWaiting(job)
}

// NoticeOfWaiting is Notice for a job whose replica is gone: it waits for another one in any phase
// but an end.
func (j *Jobs) NoticeOfWaiting(job task.Job) string {
	if !task.Terminal(job.GetExecution().GetPhase()) && j.queue.Route(subject.Kind(task.Kind(job)), job.GetExecution().GetRoute()).Counts().Paused {
		return NoticeRoutePaused
	}
	return ""
}

// getLogged is Get for a caller that goes on from the log: it waits for the first event.
func (j *Jobs) getLogged(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	e, err := j.Get(ctx, n)
	if err != nil {
		return e, err
	}
	return j.waitLogged(ctx, e)
}

// loggedTimeout bounds the wait for the first event of an accepted job.
const loggedTimeout = 30 * time.Second

// waitLogged waits for the first event of a job whose work item is stored while
// the log did not answer; its handler writes the event, which may be the job's end.
func (j *Jobs) waitLogged(ctx context.Context, e joblog.Entry) (joblog.Entry, error) {
	if e.Seq != 0 {
		return e, nil
	}
	ctx, stop := context.WithTimeoutCause(ctx, loggedTimeout,
		errcode.New(errcode.BrokerUnavailable, "the log did not answer within %s", loggedTimeout))
	defer stop()
	for {
		logged, err := j.log.Get(ctx, e.Name())
		if err == nil {
			return logged, nil
		}
		if broker.Wait(ctx, 200*time.Millisecond) != nil {
			return e, following(Explain(ctx, e.Name(), err))
		}
	}
}

// wellFormed reports whether there can be a job of this name.
func wellFormed(n subject.JobName) bool {
	kind, ok := subject.KindOf(n.ID)
	return ok && kind == n.Kind
}

// StatusRule is what the filter status of a list must be, as a violation says it.
const StatusRule = "must be JOB_STATUS_QUEUED, JOB_STATUS_IN_PROGRESS, JOB_STATUS_COMPLETED, JOB_STATUS_FAILED or JOB_STATUS_CANCELLED"

// List reads a page of a tenant's jobs, newest first.
func (j *Jobs) List(ctx context.Context, q jobtable.Query) (jobindex.Page, error) {
	after := subject.JobName{Kind: q.Kind, Tenant: q.Tenant, ID: q.After}
	if q.After != "" && !wellFormed(after) {
		return jobindex.Page{}, notFound(after)
	}
	if err := j.log.Trouble(); err != nil {
		return jobindex.Page{}, Explain(ctx, subject.JobName{Kind: q.Kind, Tenant: q.Tenant}, err)
	}
	page, err := j.index.List(ctx, q)
	switch {
	case err == nil:
		return page, nil
	case errors.Is(err, jobtable.ErrPageToken):
		return jobindex.Page{}, errcode.New(errcode.InvalidPageToken, "page_token does not belong to this list; list again without it")
	case errors.Is(err, jobindex.ErrCatchingUp):
		return jobindex.Page{}, errcode.New(errcode.IndexCatchingUp, "no replica has the job index ready; jobs keep running").WithRetryAfter(time.Second)
	case errors.Is(err, joblog.ErrNotFound):
		return jobindex.Page{}, notFound(after)
	default:
		return jobindex.Page{}, Explain(ctx, subject.JobName{Kind: q.Kind, Tenant: q.Tenant}, err)
	}
}

// VideoOf is the task of an entry whose kind the log has checked.
func VideoOf(e joblog.Entry) *genbusv1.VideoTask { return jobOf[*genbusv1.VideoTask](e.Job) }

// ChatOf is the chat of an entry whose kind the log has checked.
func ChatOf(e joblog.Entry) *genbusv1.Chat { return jobOf[*genbusv1.Chat](e.Job) }

func jobOf[J task.Job](j task.Job) J {
	job, _ := j.(J)
	return job
}
