package queue

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// Item is a stored work item.
type Item struct {
	// Stream is where it is: GENBUS_WORK for a ready job, GENBUS_WAIT for the backlog.
	Stream string
	broker.Stored
}

// Decode reads the work item.
func (i Item) Decode() (*genbusv1.WorkItem, error) {
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(i.Data, item); err != nil {
		return nil, fmt.Errorf("the work item on %s: %w", i.Subject, err)
	}
	return item, nil
}

// LogItem is the decoded item as the log judges it.
func (q *Queue) LogItem(i Item, work *genbusv1.WorkItem) joblog.WorkItem {
	return joblog.WorkItem{
		WorkItem: work, Stream: i.Stream, Seq: i.Seq, Waits: q.Waits(i), Recorded: i.Header.Get(subject.HeaderRecorded),
	}
}

// Delivered is a ready job's work item, as it was delivered, for the log to judge.
// logged is its subject.HeaderRecorded.
func (q *Queue) Delivered(work *genbusv1.WorkItem, seq uint64, logged string) joblog.WorkItem {
	return joblog.WorkItem{WorkItem: work, Stream: q.b.Names().Work(), Seq: seq, Recorded: logged}
}

// Waits reports whether an item is in the backlog.
func (q *Queue) Waits(i Item) bool { return i.Stream == q.b.Names().Wait() }

// Find returns a work item of a job as the streams' leaders have it, or
// broker.ErrNoMessage. The backlog is asked first: a job is put among the ready ones
// before it leaves the backlog, so that one that moves is not missed.
func (q *Queue) Find(ctx context.Context, n subject.TaskName) (Item, error) {
	for _, k := range q.itemKeys(n) {
		m, err := q.b.Last(ctx, k.stream, k.pattern)
		if !errors.Is(err, broker.ErrNoMessage) {
			return Item{Stream: k.stream, Stored: m}, err
		}
	}
	return Item{}, broker.ErrNoMessage
}

// Items is Find for all of a job's work items. There are two while it moves to the
// ready jobs, and where requests with one id came by different routes or had different
// bodies.
func (q *Queue) Items(ctx context.Context, n subject.TaskName) ([]Item, error) {
	var out []Item
	for _, k := range q.itemKeys(n) {
		last, err := q.b.Last(ctx, k.stream, k.pattern)
		if errors.Is(err, broker.ErrNoMessage) {
			continue
		}
		for m := (broker.Stored{}); err == nil && m.Seq < last.Seq; {
			if m, err = q.b.Next(ctx, k.stream, k.pattern, m.Seq+1); err == nil {
				out = append(out, Item{Stream: k.stream, Stored: m})
			}
		}
		if err != nil && !errors.Is(err, broker.ErrNoMessage) {
			return nil, err
		}
	}
	return out, nil
}

// itemKey is where a job's work item may be.
type itemKey struct{ stream, pattern string }

func (q *Queue) itemKeys(n subject.TaskName) []itemKey {
	names := q.b.Names()
	return []itemKey{
		{names.Wait(), names.WaitAnyRoute(n.Kind, n.Tenant, n.ID)},
		{names.Work(), names.WorkAnyRoute(n.Kind, n.Tenant, n.ID)},
	}
}

// Remove deletes a work item, and reports whether this call did. One that is gone
// already is no error.
func (q *Queue) Remove(ctx context.Context, i Item) (removed bool, err error) {
	return q.b.Delete(ctx, i.Stream, i.Seq)
}

// Removed reports whether the item of a ready job was removed, as it is before its job
// is erased, and not lost with its stream.
func (q *Queue) Removed(ctx context.Context, seq uint64) (bool, error) {
	return q.log.Removed(ctx, q.b.Names().Work(), seq)
}
