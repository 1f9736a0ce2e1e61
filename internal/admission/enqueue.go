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

// enqueueTries bounds how often a publish is repeated.
const enqueueTries = 5

// errNotThere says that the stream was "full" for an id that neither it nor the
// log has.
var errNotThere = errors.New("neither the work streams nor the log have the job")

// placed is what there is for an id: its work item, and when that was seen in the queue; or,
// where the job has ended meanwhile, what the log has of it.
type placed struct {
	item joblog.WorkItem
	seen time.Time
	log  joblog.Entry
}

// enqueue stores the work item and returns the one that is stored, which may be
// that of an earlier request with the same id.
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

// discardBody removes the stored body of an item that no stream has, also where the caller
// has gone away, or the time of the admission is over. What it cannot remove stays until the
// object store's TTL, or until a job of that id is erased.
func (a *Admission) discardBody(ctx context.Context, item *genbusv1.WorkItem) {
	if item.GetBodyRef() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.PublishTimeout)
	defer cancel()
	_ = a.bodies.Delete(ctx, publisher.BodyOf(item.GetBodyRef())) // nothing but room is lost
}

// store publishes the item, and returns the one that is stored. ours is true when
// this one is, or may be.
func (a *Admission) store(ctx context.Context, r Request, c Checked, reserved queue.Reservation) (there placed, ours bool, err error) {
	sent := false // whether the item may be stored without an answer
	for try := 0; ; try++ {
		begin := time.Now()
		item, err := reserved.Put(ctx)
		switch {
		case err == nil:
			return placed{item: item, seen: begin}, true, nil
		case errors.Is(err, broker.ErrFull):
			// On three nodes the answer comes as soon as another request's item is
			// proposed, before a read can see it: so a stream is only called full
			// when it says so again and again.
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

// acceptanceFault is what the caller is told after a publish or a read failed: sent says
// that the item may be stored all the same.
func acceptanceFault(id string, sent bool, err error) error {
	if sent {
		return errcode.New(errcode.AcceptanceUnknown, "job %s may have been accepted: %s", id, broker.Reason(err)).Because(err).ForJob(id)
	}
	return unavailable(err)
}

// fullRetry is when a caller is to try a full queue again.
const fullRetry = 5 * time.Second

func full(route string, waiting uint64) error {
	return errcode.New(errcode.QueueFull, "route %s has %d jobs waiting; nothing was accepted, try again later", route, waiting).WithRetryAfter(fullRetry)
}

// fullStream is for a stream that has no room for a job of any route.
func fullStream(route string) error {
	return errcode.New(errcode.QueueFull, "the queue is full for route %s and all others (nats.streams.work); nothing was accepted, try again later", route).
		WithRetryAfter(fullRetry)
}

// stored reads which item there is for the id after a stream said "full", which it
// says both of a subject that has its message and of a stream without room: the
// texts differ between one node and three, so the streams are asked. Where there
// are two, the one with our body is ours; the log tells whose job it is.
func (a *Admission) stored(ctx context.Context, r Request, c Checked, sent bool) (there placed, err error) {
	begin := time.Now()
	items, err := a.queue.Items.All(ctx, subject.JobName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
	if err != nil {
		return placed{}, acceptanceFault(c.ID, sent, err)
	}
	if len(items) == 0 {
		return a.endedMeanwhile(ctx, r, c, sent)
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

// endedMeanwhile tells a full stream from a job that ended between our publish and our
// read. The ended job is answered as the log has it.
func (a *Admission) endedMeanwhile(ctx context.Context, r Request, c Checked, sent bool) (placed, error) {
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
