package admission

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// errTooSlow says that JetStream did not answer in time.
var errTooSlow = errors.New("JetStream did not answer within " + decideWithin.String())

// Admit accepts a request, or attaches it to the job that it names, and returns
// the job as it is now. The job is accepted when its work item is stored. From then
// on Admit only fails with idempotency_key_reused; with acceptance_unknown, where the
// request has an id that another may use too and the log does not say whose it is; or with
// internal, where an item that is stored under the id cannot be read. Every error is
// a *errcode.Error.
func (a *Admission) Admit(ctx context.Context, r Request) (joblog.Entry, error) {
	begin := time.Now()
	entry, err := a.admit(ctx, r)
	a.metrics.Admission(r.Kind, r.Ingress, time.Since(begin))
	if err != nil {
		a.metrics.Refused(r.Kind, r.Ingress, string(errcode.Counted(ctx, err)))
		a.countRefused(r.Tenant, err)
		return joblog.Entry{}, errcode.From(err)
	}
	return entry, nil
}

// decideWithin bounds one admission while JetStream does not answer: a caller who
// waits is told within that time, and those that follow at once.
const decideWithin = 8 * time.Second

func (a *Admission) admit(ctx context.Context, r Request) (joblog.Entry, error) {
	c, refusal := a.Check(r)
	if refusal != nil && c.Fingerprint == nil { // no other request can have been this one
		return joblog.Entry{}, refusal
	}
	if err := a.b.Trouble(); err != nil {
		return joblog.Entry{}, unavailable(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, decideWithin, errTooSlow)
	defer cancel()
	if refusal != nil {
		return a.unlessAccepted(ctx, r, c, refusal)
	}
	if !c.Fresh && !r.First { // their ids have no log
		entry, found, err := a.attach(ctx, r, c)
		if found || err != nil {
			return entry, err
		}
	}
	release, err := a.reserve(ctx, r, c)
	if err != nil {
		return a.unlessAccepted(ctx, r, c, err)
	}
	defer release()
	item, err := a.item(ctx, r, c)
	if err != nil {
		return a.unlessAccepted(ctx, r, c, err)
	}
	var entry joblog.Entry
	// The holder of an attached job polls before it writes anything, and would not be told of a
	// cancel that came before it was given the item: it reads the log.
	if r.Attached == nil {
		tell := a.firsts.begin(subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
		defer func() { tell(entry) }()
	}
	there, err := a.enqueue(ctx, r, c, item)
	if err != nil {
		return joblog.Entry{}, err
	}
	if entry, err = a.logFirst(ctx, there, c); err == nil {
		a.metrics.Accepted(r.Kind, r.Ingress, r.Tenant)
	}
	return entry, err
}

// reserve takes what a new job needs until release is called, or refuses: a slot of its tenant,
// room in its route's queue, in the log and in its object store, and room for a video's dead
// letter.
func (a *Admission) reserve(ctx context.Context, r Request, c Checked) (release func(), err error) {
	releaseSlot := func() {}
	if r.Attached == nil { // the upstream has an attached task already
		if releaseSlot, err = a.quota.Acquire(ctx, r.Tenant); err != nil {
			return nil, err
		}
	}
	releaseCapacity, err := a.checkCapacity(ctx, r, c)
	if err != nil {
		releaseSlot()
		return nil, err
	}
	release = func() {
		releaseCapacity()
		releaseSlot()
	}
	// What the tenant's jobs end with goes to its object store, and is never refused there.
	if !r.Resolves {
		if err := a.bodies.CheckRoom(ctx, r.Tenant); err != nil {
			release()
			return nil, bodiesFull(err)
		}
	}
	if r.Kind == subject.Video && !r.Resolves {
		if err := a.letters.Check(ctx, r.Tenant); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// checkCapacity refuses before anything is stored: when the route's queue is full, so
// that one dead route does not fill the work stream, and when the log has no capacity for
// another job. What it takes is reserved until release is called. Of the item that
// is measured only the reference to a large body is missing: the body is not stored yet.
func (a *Admission) checkCapacity(ctx context.Context, r Request, c Checked) (release joblog.Release, err error) {
	if waiting, _ := a.queue.Route(r.Kind, c.Route.Name).Waiting(ctx); waiting >= uint64(c.Route.MaxQueued) {
		return nil, full(c.Route.Name, waiting)
	}
	release, err = a.log.Capacity.ReserveJob(ctx, task.FromWork(c.Item(ctx, r, time.Now())).Job)
	if noCapacity, ok := errors.AsType[*joblog.FullError](err); ok {
		return nil, errcode.New(errcode.StorageFull, "nothing was accepted: %s", noCapacity).WithRetryAfter(30 * time.Second)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return release, nil
}

// logFirst writes the first event from the stored item. A job that another replica has
// logged, or carried on, is answered as it is. When the log does not answer, the event is
// written when it answers again, or by the consumer that takes the item, and a job whose id
// no other request can have is accepted all the same: its item is stored. Of
// requests with one id and two bodies both may be stored, one ready and one in the
// backlog, and the log alone decides between them.
func (a *Admission) logFirst(ctx context.Context, there placed, c Checked) (joblog.Entry, error) {
	if there.log.Job != nil {
		return there.log, nil
	}
	ctx, cancel := context.WithTimeout(ctx, broker.PublishTimeout)
	defer cancel()
	entry, err := a.queue.Items.Begin(ctx, there.item, there.seen)
	if err == nil {
		return entry, sameBody(entry.Job.GetExecution().GetFingerprint(), c)
	}
	entry = joblog.Entry{Event: task.FromWork(there.item.WorkItem)}
	a.queue.LogLater(entry.Name())
	if !c.Fresh {
		return joblog.Entry{}, acceptanceFault(c.ID, true, err)
	}
	return entry, nil
}
