package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// Reservation is a place chosen for a work item that is not stored yet.
type Reservation struct {
	q      *Queue
	item   *genbusv1.WorkItem
	stream string
	msg    *nats.Msg
	done   func(enqueued bool)
}

// Reserve chooses the place for a new job's work item. The caller must call Done.
func (q *Queue) Reserve(item *genbusv1.WorkItem) (Reservation, error) {
	data, err := proto.Marshal(item)
	if err != nil {
		return Reservation{}, fmt.Errorf("encode the work item of %s: %w", item.GetId(), err)
	}
	place, done := q.choosePlace(item)
	m := nats.NewMsg(place.pattern)
	m.Data = data
	return Reservation{q: q, item: item, stream: place.stream, msg: m, done: done}, nil
}

// copyHeaders is the space, in bytes, for the headers of the dispatcher's copy.
const copyHeaders = 256

// Put stores the item and returns it with its sequence. Put may be repeated, because a subject
// holds only one message. It returns broker.ErrFull if the subject already has a message or the
// stream is full. It returns broker.ErrTooLarge if a server would refuse the item or the
// dispatcher's copy.
func (r Reservation) Put(ctx context.Context) (joblog.WorkItem, error) {
	if size, most := int64(len(r.msg.Data)), r.q.b.MaxPayload(); size+copyHeaders > most {
		return joblog.WorkItem{}, fmt.Errorf("%w: a work item of %d bytes, and NATS takes %d (max_payload)", broker.ErrTooLarge, size, most)
	}
	ack, err := r.q.b.Publish(ctx, r.msg)
	return joblog.WorkItem{WorkItem: r.item, Stream: r.stream, Seq: ack.Seq, Waits: r.stream == r.q.b.Names().Wait()}, err
}

// Done ends the reservation. enqueued must be true if the item is stored or may be stored.
func (r Reservation) Done(enqueued bool) { r.done(enqueued) }

// choosePlace returns the place for a new job's item. If the ready window has capacity and no jobs
// in the backlog are ahead of the new one, that is GENBUS_WORK. Otherwise, it is GENBUS_WAIT. The
// caller must call done, with true if the item is stored or may be stored.
func (q *Queue) choosePlace(item *genbusv1.WorkItem) (place itemKey, done func(enqueued bool)) {
	names, kind := q.b.Names(), subject.Kind(item.GetKind())
	ready := itemKey{names.Work(), names.WorkItem(kind, item.GetRoute(), item.GetTenant(), item.GetId())}
	if item.GetAttached() != nil { // already submitted, so it needs no turn
		return ready, func(bool) {}
	}
	r := q.Route(kind, item.GetRoute())
	// A retried video may come from a dead letter. Admission accepts it even if the tenant has
	// reached its limit of dead letters. It goes into the backlog, where the dispatcher passes the
	// tenant over until it is below the limit.
	redriven := kind == subject.Video && item.GetRetryOf() != ""
	if !redriven && !r.hasBacklog(item.GetTenant(), time.Now()) && r.window.reserve() {
		return ready, r.window.done
	}
	return itemKey{names.Wait(), names.WaitItem(kind, item.GetRoute(), item.GetTenant(), item.GetId())}, func(put bool) {
		if put {
			r.put()
		}
	}
}
