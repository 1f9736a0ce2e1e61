// Package orphans settles accepted jobs whose route is not configured. A replica of another
// configuration may work on them, and no replica can be asked whether it lives: so they are
// left alone until an operator moves or ends them (docs/adr/0015).
package orphans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// within bounds the work on one job.
const within = 30 * time.Second

// MaxPage is how many jobs one call settles.
const MaxPage = 100

// Settler settles orphans for an operator. All fields are required.
type Settler struct {
	Log     *joblog.Log
	Queue   *queue.Queue
	Letters deadletter.Store
	Routes  *routes.Table
	Logger  *slog.Logger
}

// Settle moves jobs of a route that is not configured to one that is, or ends
// them where to is nil, from where token says: "" for the first, or what the call before
// returned. It assumes that no replica serves the route. What cannot be done to one job
// leaves that job where it is. With an error comes what was settled before it.
func (p Settler) Settle(ctx context.Context, kind subject.Kind, name string, to *config.Route, token string) (*genbusv1.OrphansSettled, error) {
	items, next, err := p.Queue.Route(kind, name).Page(ctx, token, MaxPage)
	if err != nil {
		return nil, err
	}
	s := &settlement{parts: p, from: name, to: to, out: &genbusv1.OrphansSettled{NextPageToken: next}}
	for _, orphan := range items {
		if err = s.settle(ctx, orphan); err != nil {
			s.erased = nil // they are where they were, for the next call
			break
		}
	}
	if later := s.settleLater(ctx); err == nil {
		err = later
	}
	return s.out, err
}

// settlement settles jobs of one route that is not configured.
type settlement struct {
	parts Settler
	from  string        // the route's name
	to    *config.Route // nil: the jobs end
	out   *genbusv1.OrphansSettled
	// erased are items whose jobs seem to be erased. They are looked at once more: a log's
	// leader that has just lost the lead may answer once.
	erased []queue.Item
	// copies are items that were removed, as their jobs have a copy on a route that is configured.
	// That one may give way at the same moment, in a replica that has both routes
	// (queue.Queue.Redundant).
	copies []queue.Item
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
func (s *settlement) settle(ctx context.Context, orphan queue.Item) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("settle %s: not done within %s", orphan.Subject, within))
	defer cancel()
	n, err := s.parts.Queue.Items.NameOf(orphan)
	if err != nil {
		return err
	}
	count, err := s.settleItem(ctx, n, orphan)
	switch {
	case err == nil:
		*count++
		return nil
	case errors.Is(err, errErased) && !s.again:
		s.erased = append(s.erased, orphan)
		return nil
	case ctx.Err() != nil || broker.Unavailable(err):
		return err
	}
	s.parts.Logger.Warn("a job of a route that is not configured was left where it is", "subject", orphan.Subject, "error", err)
	s.out.Left = append(s.out.Left, &genbusv1.OrphanLeft{Tenant: n.Tenant, Id: n.ID, Reason: err.Error()})
	return nil
}

// copiesTimeout bounds the second look at the copies of a page.
const copiesTimeout = time.Minute

// settleLater settles once more the jobs of which a copy was removed, and what seemed to be erased: a
// job whose other copy is gone too is moved or ended, by what was its item. No later call has that
// item, so that the end of this one does not end the look at copies.
func (s *settlement) settleLater(ctx context.Context) error {
	wait := ctx
	switch {
	case len(s.copies) > 0:
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(context.WithoutCancel(ctx), copiesTimeout)
		defer cancel()
	case len(s.erased) == 0:
		return nil
	}
	if err := broker.Wait(wait, joblog.SecondLook); err != nil {
		return err
	}
	s.again = true
	removed := s.out.GetRemoved() // copies are counted
	var failed error
	for _, orphan := range s.copies {
		failed = errors.Join(failed, s.settle(wait, orphan))
	}
	if s.out.Removed = removed; failed != nil {
		return failed
	}
	for _, orphan := range s.erased {
		if err := s.settle(ctx, orphan); err != nil {
			return err
		}
	}
	return nil
}

// settleItem moves a job to the other route, or ends it, and removes its item. It returns
// what is to count the job.
func (s *settlement) settleItem(ctx context.Context, n subject.WorkName, orphan queue.Item) (count *uint64, err error) {
	item, err := orphan.Decode()
	if err != nil {
		count, err = &s.out.Ended, s.parts.Letters.FailUnreadable(ctx, s.parts.Log, n, orphan.Subject, orphan.Data, err)
	} else {
		count, err = s.settleJob(ctx, orphan, item)
	}
	if err != nil {
		return nil, err
	}
	_, err = s.parts.Queue.Items.Remove(ctx, orphan)
	return count, err
}

// settleJob sees to it that a job can do without its orphaned item.
func (s *settlement) settleJob(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem) (count *uint64, err error) {
	current, means, err := s.parts.Log.Resolve(ctx, s.parts.Queue.Items.LogItem(orphan, item))
	switch {
	case err != nil:
		return nil, err
	case means == joblog.Removed:
		return &s.out.Removed, nil
	case means == joblog.StaleItem && current.Job == nil:
		if !s.again {
			return nil, errErased
		}
		return &s.out.Removed, nil
	case means == joblog.Lost:
		f := errcode.New(errcode.LogLost, "the log of job %s is gone, so it was not run", item.GetId())
		if err := s.parts.Letters.PutJob(ctx, item, nil, f); err != nil {
			return nil, err
		}
		return &s.out.Ended, s.end(ctx, item, joblog.Entry{}, f, true)
	case current.Job == nil || !current.Terminal():
		return s.goOn(ctx, orphan, item, current)
	}
	if task.LeavesDeadLetter(current.Job) && task.SameRequest(item, current.Job.GetExecution()) {
		if err := s.parts.Letters.PutEnd(ctx, item, current.Job); err != nil {
			return nil, err
		}
	}
	return &s.out.Removed, s.parts.Log.Finish(ctx, current)
}

// goOn moves a job that has not ended, or ends it, unless it goes on without this item.
func (s *settlement) goOn(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem, current joblog.Entry) (count *uint64, err error) {
	elsewhere, err := s.isElsewhere(ctx, item, current)
	if elsewhere && !s.again && (current.Job == nil || task.SameRequest(item, current.Job.GetExecution())) {
		s.copies = append(s.copies, orphan)
	}
	if err != nil || elsewhere {
		return &s.out.Removed, err
	}
	moves, err := s.moves(item, current.Job)
	switch {
	case err != nil:
		return nil, err
	case !moves:
		return &s.out.Ended, s.endJob(ctx, item, current)
	}
	s.parts.Logger.Info("a job of a route that is not configured is moved", telemetry.JobAttrs(joblog.NameOf(item), s.from, "to", s.to.Name)...)
	return &s.out.Moved, s.parts.Queue.Items.Reroute(ctx, orphan, item, current, s.to.Name)
}

// isElsewhere reports whether a job goes on without its orphaned item: the item is of
// another request than the job, or its request has one on a route that is configured. The
// item that the job was made of has to be a copy of it then: that of another send gives way
// to it (queue.Queue.Redundant).
func (s *settlement) isElsewhere(ctx context.Context, item *genbusv1.WorkItem, current joblog.Entry) (bool, error) {
	if current.Job != nil && !task.SameRequest(item, current.Job.GetExecution()) {
		return true, nil
	}
	own := current.Job != nil && task.SameAcceptance(item, current.Job.GetCreatedAt())
	items, err := s.parts.Queue.Items.All(ctx, joblog.NameOf(item))
	for _, i := range items {
		n, err := s.parts.Queue.Items.NameOf(i)
		if err != nil || !s.parts.Routes.Has(n.Kind, n.Route) {
			continue
		}
		if other, err := i.Decode(); err == nil && task.SameRequest(other, item) && (!own || task.SameAcceptance(other, item.GetAcceptedAt())) {
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
func (s *settlement) moves(item *genbusv1.WorkItem, job task.Job) (bool, error) {
	if s.to == nil {
		return false, nil
	}
	if job == nil {
		job = task.FromWork(item).Job
	}
	v, video := job.(*genbusv1.VideoTask)
	polled := video && v.GetUpstreamTaskId() != ""
	switch {
	case video && !polled && !task.Untouched(v):
		return false, nil
	case s.to.Protocol != item.GetProtocol():
		return false, fmt.Errorf("route %s speaks protocol %q, and the job %q", s.to.Name, s.to.Protocol, item.GetProtocol())
	case polled:
		_, readable := s.parts.Routes.Client(v)
		return readable, nil
	case !s.to.Serves(item.GetModel()):
		return false, fmt.Errorf("route %s does not serve the model %q", s.to.Name, item.GetModel())
	}
	return true, nil
}

// endJob ends a job whose route is gone. The request of one that may have been submitted,
// or was, is kept.
func (s *settlement) endJob(ctx context.Context, item *genbusv1.WorkItem, current joblog.Entry) error {
	f := orphanFault(current, item)
	job := current.Job
	if job == nil {
		job = task.FromWork(item).Job
	}
	keep := f.Code == errcode.SubmissionUnknown || upstreamID(job) != ""
	if keep {
		if err := s.parts.Letters.PutJob(ctx, item, current.Job, f); err != nil {
			return err
		}
	}
	return s.end(ctx, item, current, f, keep)
}

func orphanFault(current joblog.Entry, item *genbusv1.WorkItem) *errcode.Error {
	if current.Job != nil && task.OutcomeUnknown(current.Job) {
		return errcode.New(errcode.SubmissionUnknown, "job %s was being submitted when route %s was removed", item.GetId(), item.GetRoute())
	}
	return errcode.New(errcode.UpstreamRemoved, "route %s of job %s is not configured any more", item.GetRoute(), item.GetId())
}

// end commits the end of a job as it was read, and not of what it has become since: a
// replica that has carried it on may have an upstream's answer.
func (s *settlement) end(ctx context.Context, item *genbusv1.WorkItem, current joblog.Entry, f *errcode.Error, letter bool) error {
	e := task.FailedAtOnce(item, time.Now(), f.TaskError())
	if current.Job != nil {
		var err error
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
	}
	ended, err := s.parts.Log.CommitOrCurrent(ctx, e, current.Seq)
	if err != nil {
		return err
	}
	if !ended.Terminal() {
		return errMovedOn
	}
	s.parts.Logger.Log(ctx, ended.EndLevel(letter), "a job of a route that is not configured ended", ended.EndAttrs()...)
	return s.parts.Log.Finish(ctx, ended)
}

// upstreamID is the upstream's id of a video, as far as the log knows it.
func upstreamID(job task.Job) string {
	v, _ := job.(*genbusv1.VideoTask)
	return v.GetUpstreamTaskId()
}
