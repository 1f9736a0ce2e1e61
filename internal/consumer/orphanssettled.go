package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// orphanedRoute settles the jobs of one route that is not configured.
type orphanedRoute struct {
	*Consumer
	routeID
	to  *config.Route // nil: the jobs end
	out *genbusv1.OrphansSettled
	// erased are items whose jobs seem to be erased. They are looked at once more: a log's
	// leader that has just lost the lead may answer once.
	erased []queue.Item
	again  bool // this is the second look
}

var (
	// errMovedOn says that an orphan changed while it was settled: a replica works on it
	// after all.
	errMovedOn = errors.New("the job went on meanwhile: a replica works on it")
	// errErased says that an item's job seems to be erased.
	errErased = errors.New("the job seems to be erased")
)

// settle settles one job. An error of this job alone leaves its item where it is.
func (o *orphanedRoute) settle(ctx context.Context, orphan queue.Item) error {
	ctx, cancel := context.WithTimeoutCause(ctx, commitTimeout, fmt.Errorf("settle %s: not done within %s", orphan.Subject, commitTimeout))
	defer cancel()
	n, err := o.Queue.NameOf(orphan)
	if err != nil {
		return err
	}
	count, err := o.settleItem(ctx, n, orphan)
	switch {
	case err == nil:
		*count++
		return nil
	case errors.Is(err, errErased) && !o.again:
		o.erased = append(o.erased, orphan)
		return nil
	case ctx.Err() != nil || broker.Unavailable(err):
		return err
	}
	o.Logger.Warn("a job of a route that is not configured was left where it is", "subject", orphan.Subject, "error", err)
	o.out.Left = append(o.out.Left, &genbusv1.OrphanLeft{Tenant: n.Tenant, Id: n.ID, Reason: err.Error()})
	return nil
}

// lookAgain settles what seemed to be erased.
func (o *orphanedRoute) lookAgain(ctx context.Context) error {
	if len(o.erased) == 0 {
		return nil
	}
	if err := broker.Wait(ctx, secondLook); err != nil {
		return err
	}
	o.again = true
	for _, orphan := range o.erased {
		if err := o.settle(ctx, orphan); err != nil {
			return err
		}
	}
	return nil
}

// settleItem moves a job to the other route, or ends it, and removes its item. It returns
// what is to count the job.
func (o *orphanedRoute) settleItem(ctx context.Context, n subject.WorkName, orphan queue.Item) (count *uint64, err error) {
	item, err := orphan.Decode()
	if err != nil {
		count, err = &o.out.Ended, o.bury(ctx, n, orphan, err)
	} else {
		count, err = o.settleJob(ctx, orphan, item)
	}
	if err != nil {
		return nil, err
	}
	_, err = o.Queue.Remove(ctx, orphan)
	return count, err
}

// bury ends a job whose item cannot be read, and keeps the item.
func (o *orphanedRoute) bury(ctx context.Context, n subject.WorkName, orphan queue.Item, cause error) error {
	f := fault.New(fault.Internal, "the work item of job %s is unreadable: %w", n.ID, cause)
	letter := &genbusv1.DeadLetter{Error: f.TaskError(), Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Subject: orphan.Subject, Data: orphan.Data}
	if err := o.dead.Put(ctx, letter, n.ID, "item"); err != nil {
		return err
	}
	o.Logger.Warn("a work item that cannot be read is a dead letter; its job fails", "subject", orphan.Subject, "error", cause)
	return o.failItem(ctx, &genbusv1.WorkItem{Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Route: n.Route, AcceptedAt: timestamppb.Now()}, f)
}

// settleJob sees to it that a job can do without its orphaned item.
func (o *orphanedRoute) settleJob(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem) (count *uint64, err error) {
	current, means, err := o.Log.Resolve(ctx, o.Queue.LogItem(orphan, item))
	switch {
	case err != nil:
		return nil, err
	case means == tasklog.Removed:
		return &o.out.Removed, nil
	case means == tasklog.Stray && current.Job == nil:
		if !o.again {
			return nil, errErased
		}
		return &o.out.Removed, nil
	case means == tasklog.Lost:
		f := fault.New(fault.LogLost, "the log of job %s is gone, so it was not run", item.GetId())
		if err := o.buryLost(ctx, item, f); err != nil {
			return nil, err
		}
		return &o.out.Ended, o.end(ctx, item, tasklog.Entry{}, f, true)
	case current.Job == nil || !current.Terminal():
		return o.goOn(ctx, orphan, item, current)
	}
	if unfound(current.Job) && sameRequest(item, current) {
		if err := o.putUnfound(ctx, item, current.Job, fault.Code(current.Job.GetError().GetCode())); err != nil {
			return nil, err
		}
	}
	return &o.out.Removed, o.Log.Finish(ctx, current)
}

// goOn moves a job that has not ended, or ends it, unless it goes on without this item.
func (o *orphanedRoute) goOn(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem, current tasklog.Entry) (count *uint64, err error) {
	elsewhere, err := o.isElsewhere(ctx, item, current)
	if err != nil || elsewhere {
		return &o.out.Removed, err
	}
	moves, err := o.moves(item, current.Job)
	switch {
	case err != nil:
		return nil, err
	case !moves:
		return &o.out.Ended, o.endJob(ctx, item, current)
	}
	o.Logger.Info("a job of a route that is not configured is moved", jobAttrs(nameOf(item), o.name, "to", o.to.Name)...)
	return &o.out.Moved, o.Queue.Reroute(ctx, orphan, item, current, o.to.Name)
}

// isElsewhere reports whether a job goes on without its orphaned item: the item is of
// another request than the job, or its request has one on a route that is configured.
func (o *orphanedRoute) isElsewhere(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry) (bool, error) {
	if current.Job != nil && !sameRequest(item, current) {
		return true, nil
	}
	items, err := o.Queue.Items(ctx, nameOf(item))
	for _, i := range items {
		n, err := o.Queue.NameOf(i)
		if err != nil || !o.Routes.Has(n.Kind, n.Route) {
			continue
		}
		if other, err := i.Decode(); err == nil && task.SameRequest(other, item) {
			return true, nil
		}
	}
	return false, err
}

// moves reports whether an orphan goes on by the other route, or ends. job is nil where
// the log does not have it yet. The error says why neither is done.
//
// One of which nothing can be at an upstream goes on if the route serves its model and
// speaks its protocol: its body is written in it. So does a chat that was cut off, with
// its next attempt. A video that its upstream has is only polled there, with the account
// that its log names, if that is still configured. One whose submission has an unknown
// outcome ends.
func (o *orphanedRoute) moves(item *genbusv1.WorkItem, job task.Job) (bool, error) {
	if o.to == nil {
		return false, nil
	}
	if job == nil {
		job = task.FromWork(item).Job
	}
	v, video := job.(*genbusv1.VideoTask)
	polled := video && v.GetUpstreamTaskId() != ""
	switch {
	case video && !polled && !untouched(v):
		return false, nil
	case o.to.Protocol != item.GetProtocol():
		return false, fmt.Errorf("route %s speaks protocol %q, and the job %q", o.to.Name, o.to.Protocol, item.GetProtocol())
	case polled:
		_, readable := o.Routes.Client(v)
		return readable, nil
	case !o.to.Serves(item.GetModel()):
		return false, fmt.Errorf("route %s does not serve the model %q", o.to.Name, item.GetModel())
	}
	return true, nil
}

// untouched reports whether nothing of a task can be at an upstream.
func untouched(v *genbusv1.VideoTask) bool {
	x := v.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}

// endJob ends a job whose route is gone. The request of one that may have been submitted,
// or was, is kept.
func (o *orphanedRoute) endJob(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry) error {
	f := orphanFault(current, item)
	keep := f.Code == fault.SubmissionUnknown || deadItem(item, current.Job, f).GetUpstreamTaskId() != ""
	if keep {
		if err := o.putEnd(ctx, item, current.Job, f, "orphan"); err != nil {
			return err
		}
	}
	return o.end(ctx, item, current, f, keep)
}

func orphanFault(current tasklog.Entry, item *genbusv1.WorkItem) *fault.Error {
	if current.Job != nil && outcomeUnknown(current.Job) {
		return fault.New(fault.SubmissionUnknown, "job %s was being submitted when route %s was removed", item.GetId(), item.GetRoute())
	}
	return fault.New(fault.UpstreamRemoved, "route %s of job %s is not configured any more", item.GetRoute(), item.GetId())
}

// end commits the end of a job as it was read, and not of what it has become since: a
// replica that has carried it on may have an upstream's answer.
func (o *orphanedRoute) end(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry, f *fault.Error, letter bool) error {
	e := task.FailedAtOnce(item, time.Now(), f.TaskError())
	if current.Job != nil {
		var err error
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
	}
	ended, err := wonOrCurrent(o.Log.Commit(ctx, e, current.Seq))
	if err != nil {
		return err
	}
	if !ended.Terminal() {
		return errMovedOn
	}
	o.Logger.Log(ctx, endLevel(letter), "a job of a route that is not configured ended", endAttrs(ended)...)
	return o.Log.Finish(ctx, ended)
}
