package core

import (
	"context"
	"errors"
	"log/slog"
	"mime"
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

// Jobs submits, reads, lists, cancels and erases jobs of either kind for callers.
type Jobs struct {
	admission *admission.Admission
	queue     *queue.Queue
	log       *joblog.Log
	index     *jobindex.Index
	eraser    erasure.Eraser
	logger    *slog.Logger
	now       func() time.Time
}

// Submit accepts a job, or attaches to the existing job of the request.
func (j *Jobs) Submit(ctx context.Context, r admission.Request) (joblog.Entry, error) {
	return j.admission.Admit(ctx, r)
}

// Get reads a tenant's job. Jobs of other tenants are not found. The entry of a job whose first
// event is not stored yet has no sequence.
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

// ReplacedBy returns the IDs of the jobs that repeat an ended job, as in Index.ReplacedBy.
func (j *Jobs) ReplacedBy(ctx context.Context, e joblog.Entry) []string {
	return j.index.ReplacedBy(ctx, e)
}

// Notice returns what to tell a caller about a job besides its state, or an empty notice.
func (j *Jobs) Notice(job task.Job) string { return Notice(j.Pause(job)) }

// Notice returns the value of the header genbus-notice for a job that waits because an operator
// paused its route, or an empty notice. The parameters have the syntax of Content-Disposition, so
// that the reason may be any text.
func Notice(p *queue.Pause) string {
	if p == nil {
		return ""
	}
	parameters := map[string]string{}
	if p.Reason != "" {
		parameters["reason"] = p.Reason
	}
	if !p.Until.IsZero() {
		parameters["until"] = p.Until.UTC().Format(time.RFC3339)
	}
	return mime.FormatMediaType(string(errcode.RoutePaused), parameters)
}

// Pause returns the pause of the route that a job waits for, or nil. It may be some seconds old.
func (j *Jobs) Pause(job task.Job) *queue.Pause {
	if job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED {
		return nil
	}
	return j.PauseUnheld(job)
}

// PauseUnheld is like Pause for a job whose replica is gone. Such a job waits for another replica
// in any phase that is not terminal.
func (j *Jobs) PauseUnheld(job task.Job) *queue.Pause {
	if task.Terminal(job.GetExecution().GetPhase()) {
		return nil
	}
	return j.queue.Route(subject.Kind(task.Kind(job)), job.GetExecution().GetRoute()).Counts().Pause
}

// getLogged is like Get but waits for the first event, so that the caller can continue from the
// log.
func (j *Jobs) getLogged(ctx context.Context, n subject.JobName) (joblog.Entry, error) {
	e, err := j.Get(ctx, n)
	if err != nil {
		return e, err
	}
	return j.waitLogged(ctx, e)
}

// loggedTimeout bounds the wait for the first event of an accepted job.
const loggedTimeout = 30 * time.Second

// waitLogged waits for the first event of a job whose work item was stored while the log did not
// answer. The job's holder writes the event, which may be the job's end.
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

// wellFormed reports whether a job of this name can exist.
func wellFormed(n subject.JobName) bool {
	kind, ok := subject.KindOf(n.ID)
	return ok && kind == n.Kind
}

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

// VideoOf returns the task of an entry whose kind the log has checked.
func VideoOf(e joblog.Entry) *genbusv1.VideoTask { return jobOf[*genbusv1.VideoTask](e.Job) }

// ChatOf returns the chat of an entry whose kind the log has checked.
func ChatOf(e joblog.Entry) *genbusv1.Chat { return jobOf[*genbusv1.Chat](e.Job) }

func jobOf[J task.Job](j task.Job) J {
	job, _ := j.(J)
	return job
}
