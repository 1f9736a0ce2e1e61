// Package orphans ends accepted jobs of unconfigured routes at an operator's request
// (ADR 15). genbus does not end them on its own, because a replica with another
// configuration may be working on them.
package orphans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// within bounds the work on one job.
const within = 30 * time.Second

// MaxPage is the maximum number of jobs per call.
const MaxPage = 100

// Ender ends jobs of unconfigured routes. All fields are required.
type Ender struct {
	Log         *joblog.Log
	Queue       *queue.Queue
	DeadLetters deadletter.Store
	Logger      *slog.Logger
}

// Fail ends up to MaxPage jobs of an unconfigured route. token is empty for the first page, or the
// next_page_token of the previous call. Fail assumes that no replica serves the route. A job that
// cannot be ended keeps its work item and is listed in left. If Fail stops early, it returns the
// counts so far with the error.
func (p Ender) Fail(ctx context.Context, kind subject.Kind, name, token string) (*genbusv1.OrphansSettled, error) {
	items, next, err := p.Queue.Route(kind, name).Page(ctx, token, MaxPage)
	if err != nil {
		return nil, err
	}
	out := &genbusv1.OrphansSettled{NextPageToken: next}
	var unsure []queue.Item
	for _, orphan := range items {
		err := p.failOne(ctx, orphan, out, false)
		if errors.Is(err, errUnsure) {
			unsure = append(unsure, orphan)
		} else if err != nil {
			return out, err
		}
	}
	if len(unsure) == 0 {
		return out, nil
	}
	if err := broker.Wait(ctx, joblog.SecondLook); err != nil {
		return out, err
	}
	for _, orphan := range unsure {
		if err := p.failOne(ctx, orphan, out, true); err != nil {
			return out, err
		}
	}
	return out, nil
}

var (
	// errMovedOn reports that a job changed while it was being ended.
	errMovedOn = errors.New("a replica is working on the job")
	// errUnsure reports a work item that seems stale. Fail rereads the log after joblog.SecondLook,
	// because a leader that has just been replaced may answer once more.
	errUnsure = errors.New("the work item seems to be stale")
)

// failOne ends one job and counts it. If an error concerns only this job, failOne lists the job in
// out.Left and keeps its work item.
func (p Ender) failOne(ctx context.Context, orphan queue.Item, out *genbusv1.OrphansSettled, again bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("end %s: not done within %s", orphan.Subject, within))
	defer cancel()
	n, err := p.Queue.Items.NameOf(orphan)
	if err != nil {
		return err
	}
	ended, err := p.failItem(ctx, n, orphan, again)
	switch {
	case err == nil && ended:
		out.Ended++
	case err == nil:
		out.Removed++
	case errors.Is(err, errUnsure), ctx.Err() != nil, broker.Unavailable(err):
		return err
	default:
		p.Logger.Warn("skipped job of unconfigured route", "subject", orphan.Subject, "error", err)
		out.Left = append(out.Left, &genbusv1.OrphanLeft{Tenant: n.Tenant, Id: n.ID, Reason: err.Error()})
	}
	return nil
}

// failItem ends a job if necessary and removes its work item.
func (p Ender) failItem(ctx context.Context, n subject.WorkName, orphan queue.Item, again bool) (ended bool, err error) {
	item, err := orphan.Decode()
	if err != nil {
		ended, err = true, p.DeadLetters.FailUnreadable(ctx, p.Log, n, orphan.Subject, orphan.Data, err)
	} else {
		ended, err = p.failJob(ctx, p.Queue.Items.LogItem(orphan, item), item, again)
	}
	if err != nil {
		return false, err
	}
	_, err = p.Queue.Items.Remove(ctx, orphan)
	return ended, err
}

// failJob ends the job of a work item, unless the job has ended, was erased, or runs from another
// item.
func (p Ender) failJob(ctx context.Context, logItem joblog.WorkItem, item *genbusv1.WorkItem, again bool) (ended bool, err error) {
	current, means, err := p.Log.Resolve(ctx, logItem)
	switch {
	case err != nil:
		return false, err
	case means == joblog.Removed:
		return false, nil
	case isStale(item, current, means) && !again:
		return false, errUnsure
	case isStale(item, current, means):
		return false, nil
	case means == joblog.Lost:
		f := errcode.New(errcode.LogLost, "job %s was not run because its log is missing", item.GetId())
		if err := p.DeadLetters.PutJob(ctx, item, nil, f); err != nil {
			return false, err
		}
		return true, p.end(ctx, item, joblog.Entry{}, f, true)
	case current.Job == nil:
		if elsewhere, err := p.isElsewhere(ctx, item); elsewhere || err != nil {
			return false, err
		}
		return true, p.endJob(ctx, item, current)
	case current.Terminal():
		if task.LeavesDeadLetter(current.Job) && task.SameRequest(item, current.Job.GetExecution()) {
			if err := p.DeadLetters.PutEnd(ctx, item, current.Job); err != nil {
				return false, err
			}
		}
		return false, p.Log.Finish(ctx, current)
	}
	return true, p.endJob(ctx, item, current)
}

// isStale reports whether the job was erased, or is unfinished and runs from another item.
func isStale(item *genbusv1.WorkItem, current joblog.Entry, means joblog.Meaning) bool {
	if current.Job == nil {
		return means == joblog.StaleItem
	}
	return !current.Terminal() && !task.Carries(item, current.Job)
}

// isElsewhere reports whether a configured route has another work item for the same request. If so,
// a job that has no log yet begins with that item.
func (p Ender) isElsewhere(ctx context.Context, item *genbusv1.WorkItem) (bool, error) {
	items, err := p.Queue.Items.All(ctx, joblog.NameOf(item))
	for _, i := range items {
		n, err := p.Queue.Items.NameOf(i)
		if err != nil || !p.Queue.Configured(n.Kind, n.Route) {
			continue
		}
		if other, err := i.Decode(); err == nil && task.SameRequest(other, item) {
			return true, nil
		}
	}
	return false, err
}

// endJob ends a job of a removed route. If the job was or may have been submitted, its request is
// kept in a dead letter.
func (p Ender) endJob(ctx context.Context, item *genbusv1.WorkItem, current joblog.Entry) error {
	f := orphanFault(current, item)
	job := current.Job
	if job == nil {
		job = task.FromWork(item).Job
	}
	keep := f.Code == errcode.SubmissionUnknown || upstreamID(job) != ""
	if keep {
		if err := p.DeadLetters.PutJob(ctx, item, current.Job, f); err != nil {
			return err
		}
	}
	return p.end(ctx, item, current, f, keep)
}

func orphanFault(current joblog.Entry, item *genbusv1.WorkItem) *errcode.Error {
	if current.Job != nil && task.OutcomeUnknown(current.Job) {
		return errcode.New(errcode.SubmissionUnknown, "job %s was being submitted when route %s was removed", item.GetId(), item.GetRoute())
	}
	return errcode.New(errcode.UpstreamRemoved, "route %s of job %s is no longer configured", item.GetRoute(), item.GetId())
}

// end ends the job if the version that was read is still the latest one. It must not end a later
// version, because the replica that continued the job may have the upstream's answer.
func (p Ender) end(ctx context.Context, item *genbusv1.WorkItem, current joblog.Entry, f *errcode.Error, letter bool) error {
	e := task.FailedAtOnce(item, time.Now(), f.TaskError())
	if current.Job != nil {
		var err error
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
	}
	ended, err := p.Log.CommitOrCurrent(ctx, e, current.Seq)
	if err != nil {
		return err
	}
	if !ended.Terminal() {
		return errMovedOn
	}
	p.Logger.Log(ctx, ended.EndLevel(letter), "ended job of unconfigured route", ended.EndAttrs()...)
	return p.Log.Finish(ctx, ended)
}

// upstreamID returns the upstream task ID of a video, or an empty string if the log has none.
func upstreamID(job task.Job) string {
	v, _ := job.(*genbusv1.VideoTask)
	return v.GetUpstreamTaskId()
}
