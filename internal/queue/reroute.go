package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Reroute stores a job's item for another route; the caller deletes the one that it has.
// A crash in between leaves two items of one job, and the log lets one submit. A job that
// has not begun goes to the backlog. One that had its turn becomes ready at once, or waits
// in the backlog where there is no room: its upstream is to be asked for it. e is what the
// log has of the job; its zero value where the log has not begun.
func (s Items) Reroute(ctx context.Context, from Item, item *genbusv1.WorkItem, e joblog.Entry, to string) error {
	moved := proto.CloneOf(item)
	moved.Route = to
	data, err := proto.Marshal(moved)
	if err != nil {
		return err
	}
	names, kind, mark := s.b.Names(), subject.Kind(item.GetKind()), from.Header.Get(subject.HeaderRecorded)
	backlog := itemKey{names.Wait(), names.WaitItem(kind, to, item.GetTenant(), item.GetId())}
	keys := []itemKey{backlog}
	if e.Job != nil {
		mark = markOf(e)
		if e.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED {
			keys = []itemKey{{names.Work(), names.WorkItem(kind, to, item.GetTenant(), item.GetId())}, backlog}
		}
	}
	for _, k := range keys {
		m := nats.NewMsg(k.pattern)
		m.Data = data
		if mark != "" {
			m.Header[subject.HeaderRecorded] = []string{mark}
		}
		if err = s.putRerouted(ctx, k, m, item); !errors.Is(err, broker.ErrFull) {
			break
		}
	}
	return err
}

// putRerouted stores an item. That it is there already, from an earlier try, is as good.
func (s Items) putRerouted(ctx context.Context, k itemKey, m *nats.Msg, item *genbusv1.WorkItem) error {
	_, full := s.b.Publish(ctx, m)
	if !errors.Is(full, broker.ErrFull) {
		return full // nil, mostly
	}
	there, err := s.b.Last(ctx, k.stream, m.Subject)
	if errors.Is(err, broker.ErrNoMessage) {
		return full
	}
	if err != nil {
		return err
	}
	if work, err := (Item{Stream: k.stream, Stored: there}).Decode(); err != nil || !task.SameAcceptance(work, item.GetAcceptedAt()) {
		return errors.New("another request with its id, or another send of its own, is on the other route")
	}
	return nil
}
