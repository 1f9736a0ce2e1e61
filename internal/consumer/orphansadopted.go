package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
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

// errMovedOn says that an orphan changed while it was adopted: somebody works on it
// after all.
var errMovedOn = errors.New("the job went on meanwhile")

// errRouteBack says that a reload has put the route back: from now on its jobs are
// taken from its line again, and not a single one is adopted any more.
var errRouteBack = errors.New("the route is configured again")

// adoptOne adopts a job on which nobody works. What is wrong with this job alone is no
// error: its item stays, and is come back to. The error is errRouteBack where no job of
// the route is to be adopted any more.
func (w *orphanWatch) adoptOne(m broker.Stored) error {
	ctx, cancel := context.WithTimeoutCause(w.working, commitTimeout, fmt.Errorf("adopt %s: not done within %s", m.Subject, commitTimeout))
	defer cancel()
	err := w.adoptOrphan(ctx, m)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || broker.Unavailable(err) || errors.Is(err, errRouteBack) {
		return err
	}
	w.Logger.Warn("a job of a removed route could not be adopted; this is repeated", w.attrs("subject", m.Subject, "error", err)...)
	return nil
}

// adoptOrphan moves a job to a route that there is, or ends it, and removes its item.
// A reload may have put the route back since the watch looked: then the item is the job's
// only one again.
func (w *orphanWatch) adoptOrphan(ctx context.Context, m broker.Stored) error {
	if w.Routes.Has(w.kind, w.name) {
		return errRouteBack
	}
	n, stream, err := w.parseItem(m.Subject)
	if err != nil {
		return err
	}
	orphan := queue.Item{Stream: stream, Stored: m}
	item, err := orphan.Decode()
	if err != nil {
		err = w.buryOrphan(ctx, n, orphan, err)
	} else {
		err = w.settleOrphan(ctx, orphan, item)
	}
	if err != nil {
		return err
	}
	_, err = w.Queue.Remove(ctx, orphan)
	return err
}

// parseItem reads the subject of a work item in line or behind it, and gives the
// stream that it is of.
func (c *Consumer) parseItem(subj string) (n subject.WorkName, stream string, err error) {
	names := c.Broker.Names()
	if n, err = names.ParseWaitItem(subj); err == nil {
		return n, names.Wait(), nil
	}
	n, err = names.ParseWorkItem(subj)
	return n, names.Work(), err
}

// buryOrphan ends a job whose item cannot be read, and keeps the item.
func (w *orphanWatch) buryOrphan(ctx context.Context, n subject.WorkName, orphan queue.Item, cause error) error {
	f := fault.New(fault.Internal, "the work item of job %s is unreadable: %w", n.ID, cause)
	letter := &genbusv1.DeadLetter{Error: f.TaskError(), Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Subject: orphan.Subject, Data: orphan.Data}
	if err := w.dead.Put(ctx, letter, n.ID, "item"); err != nil {
		return err
	}
	w.Logger.Warn("a work item that cannot be read is a dead letter; its job fails", w.attrs("subject", orphan.Subject, "error", cause)...)
	return w.failItem(ctx, &genbusv1.WorkItem{Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant, Route: n.Route, AcceptedAt: timestamppb.Now()}, f)
}

// settleOrphan sees to it that a job can do without its orphaned item.
func (w *orphanWatch) settleOrphan(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem) error {
	current, means, err := w.Log.Resolve(ctx, w.Queue.LogItem(orphan, item))
	switch {
	case err != nil:
		return err
	case means == tasklog.Removed:
		return nil
	case means == tasklog.Stray && current.Job == nil:
		return w.erased(orphan)
	case means == tasklog.Lost:
		f := fault.New(fault.LogLost, "the log of job %s is gone, so it was not run", item.GetId())
		if err := w.buryLost(ctx, item, f); err != nil {
			return err
		}
		return w.end(ctx, item, tasklog.Entry{}, f, true)
	case current.Job == nil || !current.Terminal():
		return w.goOn(ctx, orphan, item, current)
	}
	if unfound(current.Job) && sameRequest(item, current) {
		if err := w.putUnfound(ctx, item, current.Job, fault.Code(current.Job.GetError().GetCode())); err != nil {
			return err
		}
	}
	return w.Log.Finish(ctx, current)
}

// erased lets an item go whose job was erased, at the second look.
func (w *orphanWatch) erased(orphan queue.Item) error {
	key := standing{orphan.Stream, orphan.Seq}
	d := w.doubts[key]
	if d == nil {
		d = &doubt{}
		w.doubts[key] = d
	}
	if d.stray(time.Now()).verb != ack {
		return errors.New("it seems to be erased, and is looked at once more")
	}
	delete(w.doubts, key)
	return nil
}

// goOn moves a job that has not ended, or ends it, unless it goes on without this
// item.
func (w *orphanWatch) goOn(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem, current tasklog.Entry) error {
	elsewhere, err := w.standsElsewhere(ctx, item, current)
	if err != nil || elsewhere {
		return err
	}
	to, ok := w.newRoute(item, current.Job)
	switch {
	// To move it to where it stands would be to find it there, and to delete it.
	case ok && to.Name == w.name, w.Routes.Has(w.kind, w.name):
		return errRouteBack
	case !ok:
		return w.endOrphan(ctx, item, current)
	}
	return w.reroute(ctx, orphan, item, current, to)
}

// standsElsewhere reports whether a job goes on without its orphaned item: the item
// is of another request than the job, or its request has one on another route that there
// is. What stands on the watched route counts as little as the orphan itself, whether or
// not a reload puts the route back just now.
func (w *orphanWatch) standsElsewhere(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry) (bool, error) {
	if current.Job != nil && !sameRequest(item, current) {
		return true, nil
	}
	items, err := w.Queue.Items(ctx, nameOf(item))
	for _, i := range items {
		n, _, err := w.parseItem(i.Subject)
		other := err == nil && routeID{n.Kind, n.Route} != w.routeID
		if other && w.Routes.Has(n.Kind, n.Route) && ofRequest(i, item) {
			return true, nil
		}
	}
	return false, err
}

// ofRequest reports whether a stored item is of an item's request.
func ofRequest(stored queue.Item, item *genbusv1.WorkItem) bool {
	other, err := stored.Decode()
	return err == nil && task.SameRequest(other, item)
}

// newRoute is where an orphan goes on, if it can and is to. job is nil where the log
// does not have it yet.
//
// One of which nothing can be at an upstream goes on where its model is served now, if
// that speaks its protocol: its body is written in it. So does a chat that was cut
// off, with its next attempt. A video that its upstream has is only asked for there:
// any route of its protocol does that, with the account that its log names, and where
// its model is not served any more another one does.
func (c *Consumer) newRoute(item *genbusv1.WorkItem, job task.Job) (config.Route, bool) {
	if c.Config.Now().Orphans != config.OrphansReroute {
		return config.Route{}, false
	}
	if job == nil {
		job = task.FromWork(item).Job
	}
	route, served := c.Config.Now().Route(item.GetKind(), item.GetModel())
	served = served && route.Protocol == item.GetProtocol()
	v, video := job.(*genbusv1.VideoTask)
	switch {
	case !video:
		return route, served
	case v.GetUpstreamTaskId() == "":
		return route, served && untouched(v)
	}
	if _, readable := c.Routes.Client(v); !readable || served {
		return route, readable
	}
	home, ok := c.Routes.Home(v)
	return home.Route, ok
}

// untouched reports whether nothing of a task can be at an upstream.
func untouched(v *genbusv1.VideoTask) bool {
	x := v.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}

// endOrphan ends a job whose route is gone. The request of one that may have been
// submitted, or was, is kept.
func (w *orphanWatch) endOrphan(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry) error {
	f := orphanFault(current, item)
	keep := f.Code == fault.SubmissionUnknown || deadItem(item, current.Job, f).GetUpstreamTaskId() != ""
	if keep {
		if err := w.putEnd(ctx, item, current.Job, f, "orphan"); err != nil {
			return err
		}
	}
	return w.end(ctx, item, current, f, keep)
}

func orphanFault(current tasklog.Entry, item *genbusv1.WorkItem) *fault.Error {
	if current.Job != nil && outcomeUnknown(current.Job) {
		return fault.New(fault.SubmissionUnknown, "job %s was being submitted when route %s was removed", item.GetId(), item.GetRoute())
	}
	return fault.New(fault.UpstreamRemoved, "route %s of job %s is not configured any more", item.GetRoute(), item.GetId())
}

// end commits the end of a job as it was read, and not of what it has become since:
// whoever has carried it on may have an upstream's answer.
func (w *orphanWatch) end(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry, f *fault.Error, letter bool) error {
	e := task.FailedAtOnce(item, time.Now(), f.TaskError())
	if current.Job != nil {
		var err error
		if e, err = task.Failed(current.Job, time.Now(), f.TaskError()); err != nil {
			return err
		}
	}
	ended, err := wonOrCurrent(w.Log.Commit(ctx, e, current.Seq))
	if err != nil {
		return err
	}
	if !ended.Terminal() {
		return errMovedOn
	}
	w.Logger.Log(ctx, endLevel(letter), "a job of a removed route ended", endAttrs(ended)...)
	return w.Log.Finish(ctx, ended)
}

// reroute stores the job for its new route before the old item is deleted: a crash in
// between leaves two items of one job, and the log lets one submit. A job that has
// not begun waits for its turn as anybody's. One that had its turn comes into the line
// at once, or waits where that has no room: its upstream is to be asked for it.
func (w *orphanWatch) reroute(ctx context.Context, orphan queue.Item, item *genbusv1.WorkItem, current tasklog.Entry, to config.Route) error {
	item.Route = to.Name
	data, err := proto.Marshal(item)
	if err != nil {
		return err
	}
	recorded := orphan.Header.Get(subject.HeaderRecorded)
	names, kind := w.Broker.Names(), subject.Kind(item.GetKind())
	at := []string{names.WaitItem(kind, to.Name, item.GetTenant(), item.GetId())}
	if current.Job != nil {
		recorded = strconv.FormatUint(current.Seq, 10)
		if current.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED {
			at = slices.Insert(at, 0, names.WorkItem(kind, to.Name, item.GetTenant(), item.GetId()))
		}
	}
	for _, subj := range at {
		m := nats.NewMsg(subj)
		m.Data = data
		if recorded != "" {
			m.Header[subject.HeaderRecorded] = []string{recorded}
		}
		if err = w.put(ctx, m, item); !errors.Is(err, broker.ErrFull) {
			break
		}
	}
	if err == nil {
		w.Logger.Info("a job of a removed route was moved", jobAttrs(nameOf(item), w.name, "to", to.Name)...)
	}
	return err
}

// put stores an item. That it stands there already, from an earlier try, is as good.
func (w *orphanWatch) put(ctx context.Context, m *nats.Msg, item *genbusv1.WorkItem) error {
	_, full := w.Broker.Publish(ctx, m)
	if !errors.Is(full, broker.ErrFull) {
		return full // nil, mostly
	}
	_, stream, err := w.parseItem(m.Subject)
	if err != nil {
		return err
	}
	there, err := w.Broker.Last(ctx, stream, m.Subject)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return full
	case err != nil:
		return err
	case !ofRequest(queue.Item{Stream: stream, Stored: there}, item):
		return errors.New("another request with its id stands on its new route")
	}
	return nil
}
