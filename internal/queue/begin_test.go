package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestALateFirstEventRevivesNoJob proves that a writer that stalls between a job's item and its
// first event does not revive a job that was cancelled and erased in the meantime.
func TestALateFirstEventRevivesNoJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		for name, c := range map[string]struct {
			seen   time.Time
			resent bool // the request was sent again and stored for another route
		}{
			"a writer that was stopped":              {seen: time.Now().Add(-time.Minute)},
			"one that did not see when it was there": {},
			"its request came again":                 {seen: time.Now().Add(-time.Minute), resent: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newReplica(t, open(t), 16)
				item := h.stored(t, video(name, "a cat"))
				ack := h.put(t, h.workSubject(item), item)
				late := joblog.WorkItem{WorkItem: item, Stream: h.b.Names().Work(), Seq: ack.Seq}

				e, err := h.log.Commit(t.Context(), task.FromWork(item), 0) // another replica
				if err != nil {
					t.Fatal(err)
				}
				h.cancel(t, e)
				end, err := h.log.Get(t.Context(), e.Name())
				if err == nil {
					err = h.log.Erase(t.Context(), end)
				}
				if err != nil {
					t.Fatal(err)
				}

				if c.resent {
					again := proto.CloneOf(item)
					again.Route = "other"
					h.put(t, h.b.Names().WorkItem(subject.Video, "other", "acme", item.GetId()), again)
				}
				got, err := h.Items.Begin(t.Context(), late, c.seen)
				if err != nil || got.Job.GetError().GetCode() != "not_enqueued" {
					t.Errorf("it is %v, %v", got.Job, err)
				}
				if last, err := h.log.Get(t.Context(), e.Name()); err != nil || !last.Terminal() {
					t.Errorf("the log has %v, %v", last.Job, err)
				}
				if _, err := h.b.Last(t.Context(), h.b.Names().Tasks(), h.b.Names().Done(subject.Video, "acme", "failed", item.GetId())); err != nil {
					t.Errorf("the feed: %v", err)
				}
			})
		}
	})
}

// TestAFirstEventIsKept proves that Begin keeps a job whose item was dispatched, and one that
// another replica has continued.
func TestAFirstEventIsKept(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 16)
		item := h.stored(t, video("dispatched", "a cat"))
		ack := h.put(t, h.waitSubject(item), item)
		waits := joblog.WorkItem{WorkItem: item, Stream: h.b.Names().Wait(), Seq: ack.Seq, Waits: true}
		if _, err := h.b.Delete(t.Context(), waits.Stream, waits.Seq); err != nil {
			t.Fatal(err)
		}
		h.put(t, h.workSubject(item), item)
		for range 2 { // the second call loses to the first
			if e, err := h.Items.Begin(t.Context(), waits, time.Time{}); err != nil || e.Terminal() || e.Version() != 1 {
				t.Errorf("it is %v, %v", e.Job, err)
			}
		}
		item = h.stored(t, video("at once", "a cat"))
		if e, err := h.Items.Begin(t.Context(), joblog.WorkItem{WorkItem: item}, time.Now()); err != nil || e.Terminal() {
			t.Errorf("an item that was just seen is looked for: %v, %v", e.Job, err)
		}
		if _, err := h.Items.Find(t.Context(), nameOf(item)); !errors.Is(err, broker.ErrNoMessage) {
			t.Error(err)
		}
	})
}
