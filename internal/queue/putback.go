package queue

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// PutBack puts a ready job, whose item has the sequence seq, into the backlog again.
// Afterwards the caller removes the ready item. Until that is done the new item is not
// moved: a dispatcher that moved it would find the old one, and delete the new one.
func (q *Queue) PutBack(ctx context.Context, e joblog.Entry, item *genbusv1.WorkItem, seq uint64) error {
	data, err := proto.Marshal(item)
	if err != nil {
		return err
	}
	m := nats.NewMsg(q.b.Names().WaitItem(subject.Kind(item.GetKind()), item.GetRoute(), item.GetTenant(), item.GetId()))
	m.Data = data
	m.Header[subject.HeaderRecorded] = []string{markOf(e)}
	m.Header[subject.HeaderPutBack] = []string{strconv.FormatUint(seq, 10)}
	for {
		_, full := q.b.Publish(ctx, m)
		if full == nil {
			q.Route(subject.Kind(item.GetKind()), item.GetRoute()).put()
		}
		if !errors.Is(full, broker.ErrFull) {
			return full
		}
		there := Item{Stream: q.b.Names().Wait()}
		if there.Stored, err = q.b.Last(ctx, there.Stream, m.Subject); err != nil {
			return full
		}
		before, _ := strconv.ParseUint(there.Header.Get(subject.HeaderPutBack), 10, 64) // none is before all
		if before == seq {
			return nil // from an earlier try
		}
		work, err := there.Decode()
		if err != nil || before > seq || !task.SameAcceptance(work, item.GetAcceptedAt()) {
			return full
		}
		// It is the item that the job had before it was made ready: the dispatcher died before
		// it deleted that. The next one would, but passes over the tenant now.
		if _, err := q.Items.Remove(ctx, there); err != nil {
			return err
		}
	}
}
