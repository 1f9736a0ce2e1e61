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

// Reservation is the place of a work item that is about to be stored.
type Reservation struct {
	q      *Queue
	item   *genbusv1.WorkItem
	stream string
	msg    *nats.Msg
	done   func(enqueued bool)
}

// Reserve chooses the place of a new job's work item.
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

// copyHeaders is by how much longer the copy of an item may be that is made when its turn comes, in
// bytes: it has headers.
const copyHeaders = 256

// Put stores the item, and returns its sequence. A repeat is harmless: a subject holds one
// message. ErrFull says that the subject has its message, or that the stream has no room, and
// ErrTooLarge that no server would take the item, or its copy later.
func (r Reservation) Put(ctx context.Context) (joblog.WorkItem, error) {
	if size, most := int64(len(r.msg.Data)), r.q.b.MaxPayload(); size+copyHeaders > most {
		return joblog.WorkItem{}, fmt.Errorf("%w: a work item of %d bytes, and NATS takes %d (max_payload)", broker.ErrTooLarge, size, most)
	}
	ack, err := r.q.b.Publish(ctx, r.msg)
	return joblog.WorkItem{WorkItem: r.item, Stream: r.stream, Seq: ack.Seq, Waits: r.stream == r.q.b.Names().Wait()}, err
}

// Done ends the reservation; enqueued says whether the item is stored, or may be.
func (r Reservation) Done(enqueued bool) { r.done(enqueued) }

// choosePlace makes a new job ready while the ready window has room and, as far as is
// known, no jobs wait in the backlog that go before it. done must be called with whether
// the item is stored, or may be.
func (q *Queue) choosePlace(item *genbusv1.WorkItem) (place itemKey, done func(enqueued bool)) {
	names, kind := q.b.Names(), subject.Kind(item.GetKind())
	ready := itemKey{names.Work(), names.WorkItem(kind, item.GetRoute(), item.GetTenant(), item.GetId())}
	if item.GetAttached() != nil { // it had its turn, and submits nothing; its letter waits for it
		return ready, func(bool) {}
	}
	r := q.Route(kind, item.GetRoute())
	// A video that repeats another may be made of a dead letter. It is admitted although its tenant
	// is at its bound of letters, and the dispatcher passes over it until the tenant is below.
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
