package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
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

// Items are the stored work items of all routes, ready and in the backlog. It is safe for
// concurrent use, and knows no more than the streams do.
type Items struct {
	b   *broker.Broker
	log *joblog.Log
}

// LogItem is the decoded item as the log judges it.
func (s Items) LogItem(i Item, work *genbusv1.WorkItem) joblog.WorkItem {
	return joblog.WorkItem{
		WorkItem: work, Stream: i.Stream, Seq: i.Seq, Waits: s.Waits(i), Recorded: i.Header.Get(subject.HeaderRecorded),
	}
}

// Delivered is a ready job's work item, as it was delivered, for the log to judge.
// recorded is its subject.HeaderRecorded.
func (s Items) Delivered(work *genbusv1.WorkItem, seq uint64, recorded string) joblog.WorkItem {
	return joblog.WorkItem{WorkItem: work, Stream: s.b.Names().Work(), Seq: seq, Recorded: recorded}
}

// Waits reports whether an item is in the backlog.
func (s Items) Waits(i Item) bool { return i.Stream == s.b.Names().Wait() }

// Find returns a work item of a job as the streams' leaders have it, or
// broker.ErrNoMessage. The backlog is read first: a job only goes from there to GENBUS_WORK, and
// is stored there before it is deleted here. Of the two streams mostly one has none, which only
// its leader says.
func (s Items) Find(ctx context.Context, n subject.JobName) (Item, error) {
	for _, k := range s.itemKeys(n) {
		m, err := s.b.Probe(ctx, k.stream, k.pattern)
		if !errors.Is(err, broker.ErrNoMessage) {
			return Item{Stream: k.stream, Stored: m}, err
		}
	}
	return Item{}, broker.ErrNoMessage
}

// All is Find for all of a job's work items. There are two while it dispatches, and where
// requests with one id came by different routes or had different bodies.
func (s Items) All(ctx context.Context, n subject.JobName) ([]Item, error) {
	var out []Item
	for _, k := range s.itemKeys(n) {
		last, err := s.b.Probe(ctx, k.stream, k.pattern)
		if errors.Is(err, broker.ErrNoMessage) {
			continue
		}
		for m := (broker.Stored{}); err == nil && m.Seq < last.Seq; {
			if m, err = s.b.Next(ctx, k.stream, k.pattern, m.Seq+1); err == nil {
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

func (s Items) itemKeys(n subject.JobName) []itemKey {
	names := s.b.Names()
	return []itemKey{
		{names.Wait(), names.WaitAnyRoute(n.Kind, n.Tenant, n.ID)},
		{names.Work(), names.WorkAnyRoute(n.Kind, n.Tenant, n.ID)},
	}
}

// Remove deletes a work item, and reports whether this call did. One that is gone
// already is no error.
func (s Items) Remove(ctx context.Context, i Item) (removed bool, err error) {
	return s.b.Delete(ctx, i.Stream, i.Seq)
}

// Removed reports whether the item of a ready job was removed, as it is before its job
// is erased, and not lost with its stream.
func (s Items) Removed(ctx context.Context, seq uint64) (bool, error) {
	return s.log.Removed(ctx, s.b.Names().Work(), seq)
}

// Ahead counts the items of the same route that wait, and were stored before an item of the
// backlog. The dispatcher dispatches jobs by their tenants' turns, not in this order.
func (s Items) Ahead(ctx context.Context, i Item) (uint64, error) {
	n, err := s.NameOf(i)
	if err != nil {
		return 0, err
	}
	pattern := s.b.Names().WaitRoutePattern(n.Kind, n.Route)
	all, err := countFrom(ctx, s.b, pattern, 1)
	if err != nil {
		return 0, err
	}
	rest, err := countFrom(ctx, s.b, pattern, i.Seq)
	return all - min(rest, all), err
}

// NameOf reads the name that an item was stored under.
func (s Items) NameOf(i Item) (subject.WorkName, error) {
	if s.Waits(i) {
		return s.b.Names().ParseWaitItem(i.Subject)
	}
	return s.b.Names().ParseWorkItem(i.Subject)
}

// removedPoll is how often AwaitRemoved checks. JetStream notifies no one that an item was
// acknowledged.
const removedPoll = 100 * time.Millisecond

// AwaitRemoved returns when no replica works on a job that has ended: its work item is
// gone. Its holder lets go as soon as it hears of the end, and another replica after
// AckWait where the holder is dead. It is never taken away from a holder, which may have
// the upstream's answer to log. After patience the error is still_held.
func (s Items) AwaitRemoved(ctx context.Context, n subject.JobName, patience time.Duration) error {
	for deadline := time.Now().Add(patience); ; {
		_, err := s.Find(ctx, n)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			return nil
		case err != nil:
			return fmt.Errorf("look for the work item of %s: %w", n.ID, err)
		case time.Now().After(deadline):
			return errcode.New(errcode.StillHeld, "job %s has ended, but a replica still holds it; send the same request again", n.ID).
				WithRetryAfter(5 * time.Second).ForJob(n.ID)
		}
		if err := broker.Wait(ctx, removedPoll); err != nil {
			return err
		}
	}
}
