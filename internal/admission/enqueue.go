package admission

import (
	"context"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/subject"
)

// enqueueTries bounds the attempts to publish an item.
const enqueueTries = 5

// errNotThere reports that a stream answered "full" for an ID that is in neither the work streams
// nor the log.
var errNotThere = errors.New("the job is in neither the work streams nor the log")

// placed holds the work item stored under an ID and the time when the item was seen in the queue.
// If the job has ended in the meantime, it holds the job's log entry instead.
type placed struct {
	item joblog.WorkItem
	seen time.Time
	log  joblog.Entry
}

// enqueue stores the work item and returns the stored one, which may come from an earlier request
// with the same ID.
func (a *Admission) enqueue(ctx context.Context, r Request, c Checked, item *genbusv1.WorkItem) (placed, error) {
	reserved, err := a.queue.Reserve(item)
	if err != nil {
		a.discardBody(ctx, item)
		return placed{}, errcode.From(err)
	}
	there, ours, err := a.store(ctx, r, c, reserved)
	reserved.Done(ours)
	if !ours {
		a.discardBody(ctx, item)
	}
	return there, err
}

// discardBody removes the stored body of an item that no stream has, even if ctx has ended. If that
// fails, the body remains until the object store's TTL expires or a job with this ID is erased.
func (a *Admission) discardBody(ctx context.Context, item *genbusv1.WorkItem) {
	if item.GetBodyRef() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.PublishTimeout)
	defer cancel()
	_ = a.bodies.Delete(ctx, publisher.BodyOf(item.GetBodyRef())) // a leftover body only takes space
}

// store publishes the item and returns the stored item. ours is true if the stored item is, or may
// be, this one.
func (a *Admission) store(ctx context.Context, r Request, c Checked, reserved queue.Reservation) (there placed, ours bool, err error) {
	sent := false // whether the item may be stored although no answer arrived
	for try := 0; ; try++ {
		begin := time.Now()
		item, err := reserved.Put(ctx)
		switch {
		case err == nil:
			return placed{item: item, seen: begin}, true, nil
		case errors.Is(err, broker.ErrFull):
			// With three nodes, the broker returns this error as soon as another request's item is
			// proposed, even before a read can see that item. The stream therefore counts as full
			// only after several such errors.
			there, err := a.stored(ctx, r, c, sent)
			if !errors.Is(err, errNotThere) {
				return there, sent, err
			}
		case errors.Is(err, broker.ErrTooLarge):
			return placed{}, sent, errcode.New(errcode.BodyTooLarge, "job %s: %s", c.ID, broker.Reason(err)).Because(err)
		case errors.Is(err, broker.ErrNoAnswer):
			sent = true
		}
		if try < enqueueTries-1 && broker.Wait(ctx, 10*time.Millisecond<<(2*try)) == nil {
			continue
		}
		if isUsedUp(err) && !sent {
			return placed{}, false, usedUp(err)
		}
		if errors.Is(err, broker.ErrFull) && !sent {
			return placed{}, false, fullStream(c.Route.Name)
		}
		return placed{}, sent, acceptanceFault(c.ID, sent, err)
	}
}

// acceptanceFault returns the error for a failed publish or read. sent means that the item may be
// stored despite the error.
func acceptanceFault(id string, sent bool, err error) error {
	if sent {
		return errcode.New(errcode.AcceptanceUnknown, "job %s may have been accepted: %s", id, broker.Reason(err)).Because(err).ForJob(id)
	}
	return unavailable(err)
}

// fullRetry is the Retry-After of a full queue.
const fullRetry = 5 * time.Second

func full(route string, waiting uint64) error {
	return errcode.New(errcode.QueueFull, "route %s has %d jobs waiting, so nothing was accepted; try again later", route, waiting).WithRetryAfter(fullRetry)
}

// fullStream returns the error for full work streams, which affect every route.
func fullStream(route string) error {
	return errcode.New(errcode.QueueFull, "the queue is full for route %s and all others (nats.streams.work), so nothing was accepted; try again later", route).
		WithRetryAfter(fullRetry)
}

// stored reads the items with the ID after a stream answered "full". That answer means either that
// the subject already has a message or that the stream is full. Its text is not the same on one
// node as on three, so stored reads the streams. If there are two items, it returns the one with
// this request's body. The log decides whose job it is.
func (a *Admission) stored(ctx context.Context, r Request, c Checked, sent bool) (there placed, err error) {
	begin := time.Now()
	items, err := a.queue.Items.All(ctx, subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
	if err != nil {
		return placed{}, acceptanceFault(c.ID, sent, err)
	}
	if len(items) == 0 {
		return a.findEnded(ctx, r, c, sent)
	}
	for _, i := range items {
		work, unreadable := i.Decode()
		if unreadable != nil {
			return placed{}, errcode.New(errcode.Internal, "the work item of %s is unreadable: %w", c.ID, unreadable).ForJob(c.ID)
		}
		there = placed{item: a.queue.Items.LogItem(i, work), seen: begin}
		if err = sameBody(work.GetFingerprint(), c); err == nil {
			break
		}
	}
	return there, err
}

// findEnded distinguishes a full stream from a job that ended between the publish and the read. It
// returns the ended job from the log.
func (a *Admission) findEnded(ctx context.Context, r Request, c Checked, sent bool) (placed, error) {
	entry, there, err := a.attach(ctx, r, c)
	switch {
	case there:
		return placed{log: entry}, err
	case err != nil:
		return placed{}, acceptanceFault(c.ID, sent, err)
	default:
		return placed{}, errNotThere
	}
}
