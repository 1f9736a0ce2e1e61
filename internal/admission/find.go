package admission

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// Item is a stored work item.
type Item struct {
	// Stream is where it stands: that of the line, or that of those who wait.
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

// Of is the decoded item as the log judges it.
func (i Item) Of(work *genbusv1.WorkItem) tasklog.WorkItem {
	return tasklog.WorkItem{WorkItem: work, Stream: i.Stream, Seq: i.Seq, Recorded: i.Header.Get(subject.HeaderRecorded)}
}

// Find gives a work item of a job as the streams' leaders have it, or
// broker.ErrNoMessage. Those that wait are asked first: a job stands in line before
// it leaves them, so that one on its way is not missed.
func (a *Admission) Find(ctx context.Context, n subject.TaskName) (Item, error) {
	for _, at := range a.places(n) {
		m, err := a.b.Last(ctx, at.stream, at.pattern)
		if !errors.Is(err, broker.ErrNoMessage) {
			return Item{Stream: at.stream, Stored: m}, err
		}
	}
	return Item{}, broker.ErrNoMessage
}

// Items is Find for all of a job's work items. There are two while it comes into
// the line, and where requests with one id came by different routes or had
// different bodies.
func (a *Admission) Items(ctx context.Context, n subject.TaskName) ([]Item, error) {
	var out []Item
	for _, at := range a.places(n) {
		last, err := a.b.Last(ctx, at.stream, at.pattern)
		if errors.Is(err, broker.ErrNoMessage) {
			continue
		}
		for m := (broker.Stored{}); err == nil && m.Seq < last.Seq; {
			if m, err = a.b.Next(ctx, at.stream, at.pattern, m.Seq+1); err == nil {
				out = append(out, Item{Stream: at.stream, Stored: m})
			}
		}
		if err != nil && !errors.Is(err, broker.ErrNoMessage) {
			return nil, err
		}
	}
	return out, nil
}

// place is where a job's work item may stand.
type place struct{ stream, pattern string }

func (a *Admission) places(n subject.TaskName) []place {
	names := a.b.Names()
	return []place{
		{names.Wait(), names.WaitAnyRoute(n.Kind, n.Tenant, n.ID)},
		{names.Work(), names.WorkAnyRoute(n.Kind, n.Tenant, n.ID)},
	}
}

// Remove deletes a work item, and reports whether this call did. One that is gone
// already is no error.
func (a *Admission) Remove(ctx context.Context, i Item) (removed bool, err error) {
	return a.b.Delete(ctx, i.Stream, i.Seq)
}
