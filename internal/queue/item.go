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
	// Stream is the stream that holds the item: GENBUS_WORK for a ready job, GENBUS_WAIT for the
	// backlog.
	Stream string
	broker.Stored
}

// Decode parses the work item.
func (i Item) Decode() (*genbusv1.WorkItem, error) {
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(i.Data, item); err != nil {
		return nil, fmt.Errorf("the work item on %s: %w", i.Subject, err)
	}
	return item, nil
}

// Items reads the stored work items of all routes, both ready and in the backlog. It is stateless
// and safe for concurrent use.
type Items struct {
	b   *broker.Broker
	log *joblog.Log
}

// LogItem converts a decoded item for package joblog.
func (s Items) LogItem(i Item, work *genbusv1.WorkItem) joblog.WorkItem {
	return joblog.WorkItem{
		WorkItem: work, Stream: i.Stream, Seq: i.Seq, Waits: s.Waits(i), Recorded: i.Header.Get(subject.HeaderRecorded),
	}
}

// Delivered converts a delivered work item for package joblog. recorded is the value of its
// subject.HeaderRecorded.
func (s Items) Delivered(work *genbusv1.WorkItem, seq uint64, recorded string) joblog.WorkItem {
	return joblog.WorkItem{WorkItem: work, Stream: s.b.Names().Work(), Seq: seq, Recorded: recorded}
}

// Waits reports whether an item is in the backlog.
func (s Items) Waits(i Item) bool { return i.Stream == s.b.Names().Wait() }

// Find returns a work item of a job as read from the streams' leaders, or broker.ErrNoMessage. It
// reads the backlog first, because a dispatch stores the job in GENBUS_WORK before it deletes it
// from GENBUS_WAIT. It uses Probe, because one of the two streams usually has no item.
func (s Items) Find(ctx context.Context, n subject.JobName) (Item, error) {
	for _, k := range s.itemKeys(n) {
		m, err := s.b.Probe(ctx, k.stream, k.pattern)
		if !errors.Is(err, broker.ErrNoMessage) {
			return Item{Stream: k.stream, Stored: m}, err
		}
	}
	return Item{}, broker.ErrNoMessage
}

// All returns all work items of a job. There are two during a dispatch. There may be several if
// requests with the same ID arrived on different routes or with different bodies.
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

type itemKey struct{ stream, pattern string }

func (s Items) itemKeys(n subject.JobName) []itemKey {
	names := s.b.Names()
	return []itemKey{
		{names.Wait(), names.WaitAnyRoute(n.Kind, n.Tenant, n.ID)},
		{names.Work(), names.WorkAnyRoute(n.Kind, n.Tenant, n.ID)},
	}
}

// Remove deletes a work item. removed reports whether this call deleted it. A missing item is not
// an error.
func (s Items) Remove(ctx context.Context, i Item) (removed bool, err error) {
	return s.b.Delete(ctx, i.Stream, i.Seq)
}

// Removed reports whether a ready job's item was removed, for example before an erasure, rather
// than lost with its stream.
func (s Items) Removed(ctx context.Context, seq uint64) (bool, error) {
	return s.log.Removed(ctx, s.b.Names().Work(), seq)
}

// StoredBefore returns how many of the route's backlog items were stored before i. The dispatch
// order is different, because tenants take turns.
func (s Items) StoredBefore(ctx context.Context, i Item) (uint64, error) {
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

// NameOf parses the name under which an item is stored.
func (s Items) NameOf(i Item) (subject.WorkName, error) {
	if s.Waits(i) {
		return s.b.Names().ParseWaitItem(i.Subject)
	}
	return s.b.Names().ParseWorkItem(i.Subject)
}

// removedPoll is how often AwaitRemoved checks. JetStream sends no event when an item is
// acknowledged.
const removedPoll = 100 * time.Millisecond

// AwaitRemoved waits until the work item of an ended job is gone, so that no replica works on the
// job. The holder acks the item when it learns of the end. If the holder is dead, another replica
// acks the item after AckWait. AwaitRemoved does not remove the item, because the holder may still
// have to log the upstream's answer. It returns still_held after patience.
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
