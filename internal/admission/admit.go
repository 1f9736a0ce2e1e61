package admission

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// errTooSlow ends an admission that JetStream did not answer in time.
var errTooSlow = errors.New("JetStream did not answer within " + decideWithin.String())

// Admit accepts a request and returns the job's current state. If a job with the request's ID
// exists, Admit attaches the request to that job instead. A job is accepted once its work item is
// stored. From then on, Admit fails only with one of these codes:
//   - idempotency_key_reused
//   - acceptance_unknown, if another request may have used the ID and the log does not say whose
//     job it is
//   - internal, if an item stored under the ID is unreadable
//
// Every error is an *errcode.Error.
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

// decideWithin bounds one admission while JetStream does not answer. Requests fail at once if the
// broker has reported trouble.
const decideWithin = 8 * time.Second

func (a *Admission) admit(ctx context.Context, r Request) (joblog.Entry, error) {
	c, refusal := a.Check(r)
	if refusal != nil && c.Fingerprint == nil { // the request cannot have been accepted before
		return joblog.Entry{}, refusal
	}
	if err := cmp.Or(a.b.Trouble(), a.b.RoomForJobs()); err != nil {
		return joblog.Entry{}, unavailable(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, decideWithin, errTooSlow)
	defer cancel()
	if refusal != nil {
		return a.unlessAccepted(ctx, r, c, refusal)
	}
	if !c.Fresh && !r.First { // otherwise there is no log to read
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
	// For an attached job, make the holder read the log instead. It polls before its first write,
	// so it would miss a cancel that was logged before it got the item.
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

// reserve reserves one of the tenant's slots, and log capacity, for a new job. Both stay reserved
// until release is called. reserve also checks the route's queue, the object store and, for a
// video, the tenant's dead letters. It refuses the job if any of these is full.
func (a *Admission) reserve(ctx context.Context, r Request, c Checked) (release func(), err error) {
	releaseSlot := func() {}
	if r.Attached == nil { // the upstream already has an attached task
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
	// The limit applies only to requests. Results of the tenant's jobs are stored even beyond the
	// limit.
	if !r.Resolves {
		if err := a.bodies.CheckCapacity(ctx, r.Tenant); err != nil {
			release()
			return nil, bodiesFull(err)
		}
	}
	if r.Kind == subject.Video && !r.Resolves {
		if err := a.deadLetters.Check(ctx, r.Tenant); err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// checkCapacity runs before anything is stored. It refuses the job if its route's queue is full, so
// that one failing route cannot fill the work stream. It also refuses the job if the log has no
// capacity for it, and otherwise reserves that capacity until release is called. The item that it
// measures lacks only the reference to a large body, which is not stored yet.
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

// logFirst writes the first event from the stored item. If another replica has already logged or
// continued the job, logFirst returns its current state. If the log does not answer, the queue or
// the consumer that takes the item writes the event later. In that case, a job with a fresh ID is
// still accepted, because its item is stored. Two requests with the same ID and different bodies
// may both be stored, one ready and one in the backlog. Only the log decides between them.
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
