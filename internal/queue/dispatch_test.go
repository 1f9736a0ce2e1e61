package queue_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestItemThatNobodyRecordedIsRecorded proves that the dispatcher writes the first event if
// admission died before it.
func TestItemThatNobodyRecordedIsRecorded(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		item := h.stored(t, video("one", "a cat"))
		h.put(t, h.waitSubject(item), item)
		h.start(t)
		if n := h.take(t); n.ID != item.GetId() {
			t.Fatalf("taken: %v", n)
		}
		e, err := h.log.Get(t.Context(), nameOf(item))
		if err != nil || e.Version() != 1 || !e.Job.GetCreatedAt().AsTime().Equal(item.GetAcceptedAt().AsTime()) {
			t.Errorf("the log has %v, %v", e.Job, err)
		}
		if h.held[0].Headers().Get(subject.HeaderRecorded) == "" {
			t.Error("the item is not marked as recorded")
		}
		await(t, "an empty room", func() bool { return h.waiting(t) == 0 })
	})
}

// TestOldItemWithoutALogIsRecorded proves the same for an old item: because it was never ready, its
// job cannot have started.
func TestOldItemWithoutALogIsRecorded(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		item := h.stored(t, video("one", "a cat"))
		item.AcceptedAt.Seconds -= 2 * 3600
		h.put(t, h.waitSubject(item), item)
		h.start(t)
		h.take(t)
		e, err := h.log.Get(t.Context(), nameOf(item))
		if mark := h.held[0].Headers().Get(subject.HeaderRecorded); err != nil || e.Version() != 1 || mark != strconv.FormatUint(e.Seq, 10) {
			t.Errorf("the log has %v, %v, and the item is marked %q", e.Job, err, mark)
		}
	})
}

// TestErasedItemThatWasRecordedIsNotANewJob proves that the item of an erased job is dispatched
// with its mark, so that the consumer can tell.
func TestErasedItemThatWasRecordedIsNotANewJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		item := h.stored(t, video("one", "a cat"))
		end := h.cancelled(t, item)
		if err := h.log.Erase(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		h.putRecorded(t, h.waitSubject(item), item, end.Seq)
		h.start(t)
		h.take(t)
		await(t, "an empty room", func() bool { return h.waiting(t) == 0 })
		mark, want := h.held[0].Headers().Get(subject.HeaderRecorded), strconv.FormatUint(end.Seq, 10)
		if _, err := h.log.Get(t.Context(), nameOf(item)); !errors.Is(err, joblog.ErrNotFound) || mark != want {
			t.Errorf("the log says %v, and the item is marked %q, want %q", err, mark, want)
		}
	})
}

// TestItemThatTheLogHasLostIsLeftToTheConsumer proves that the dispatcher passes on the item of a
// job that the log has lost. The consumer writes the dead letter.
func TestItemThatTheLogHasLostIsLeftToTheConsumer(t *testing.T) {
	t.Parallel()
	h := newReplica(t, brokertest.Single(t), 4)
	item := h.stored(t, video("one", "a cat"))
	h.putRecorded(t, h.waitSubject(item), item, 1000) // as after a restore of an old log
	h.start(t)
	h.take(t)
	if _, err := h.log.Get(t.Context(), nameOf(item)); !errors.Is(err, joblog.ErrNotFound) || h.held[0].Headers().Get(subject.HeaderRecorded) != "1000" {
		t.Errorf("%v, marked %q", err, h.held[0].Headers().Get(subject.HeaderRecorded))
	}
}

// TestDispatcherThatDiedBeforeItDeleted proves that a job in both places stays ready once and
// leaves the backlog, also if its backlog item came from a second send.
func TestDispatcherThatDiedBeforeItDeleted(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		item, second := h.stored(t, video("one", "a cat")), h.stored(t, video("two", "a cat"))
		h.put(t, h.workSubject(item), item)
		h.put(t, h.waitSubject(item), item)
		h.put(t, h.workSubject(second), second)
		second.AcceptedAt.Nanos++
		h.put(t, h.waitSubject(second), second)
		h.start(t)
		await(t, "an empty room", func() bool { return h.waiting(t) == 0 })
		if h.ready(t) != 2 {
			t.Errorf("%d are ready", h.ready(t))
		}
	})
}

// TestJobThatHasEndedTakesNobodysPlace proves that the item of an ended job is removed after its
// end is in the feed.
func TestJobThatHasEndedTakesNobodysPlace(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		item := h.stored(t, video("one", "a cat"))
		end := h.cancelled(t, item)
		h.put(t, h.waitSubject(item), item)
		h.start(t)
		await(t, "an empty room", func() bool { return h.waiting(t) == 0 })
		if h.ready(t) != 0 {
			t.Errorf("%d are ready", h.ready(t))
		}
		if _, err := h.b.Last(t.Context(), h.b.Names().Tasks(), h.b.Names().Done(subject.Video, "acme", "cancelled", end.Job.GetId())); err != nil {
			t.Errorf("the feed: %v", err)
		}
	})
}

// TestUnfoundJobIsDispatched proves that an attached job that has ended is dispatched, because its
// consumer writes the dead letter.
func TestUnfoundJobIsDispatched(t *testing.T) {
	t.Parallel()
	h := newReplica(t, brokertest.Single(t), 4)
	item := h.stored(t, video("one", "a cat"))
	item.Attached = &genbusv1.AttachedTask{Upstream: "u", UpstreamTaskId: "up_1", Code: "poisoned"}
	h.cancelled(t, item)
	h.put(t, h.waitSubject(item), item)
	h.start(t)
	if n := h.take(t); n.ID != item.GetId() {
		t.Errorf("taken: %v", n)
	}
}

// cancelled logs a job and its cancellation, without the feed.
func (h *replica) cancelled(t testing.TB, item *genbusv1.WorkItem) joblog.Entry {
	t.Helper()
	e, err := h.log.Commit(t.Context(), task.FromWork(item), 0)
	if err != nil {
		t.Fatal(err)
	}
	next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "x").TaskError())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = h.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEndOfAnotherJobUnderTheIDIsNotThisOnes proves that a waiting job is dispatched although the
// log shows the end of an earlier job with its ID.
func TestEndOfAnotherJobUnderTheIDIsNotThisOnes(t *testing.T) {
	t.Parallel()
	h := newReplica(t, brokertest.Single(t), 4)
	earlier := h.stored(t, video("one", "a cat"))
	h.cancelled(t, earlier)
	later := h.stored(t, video("one", "a cat"))
	later.AcceptedAt.Nanos++
	h.put(t, h.waitSubject(later), later)
	h.start(t)
	if n := h.take(t); n.ID != later.GetId() {
		t.Errorf("taken: %v", n)
	}
}

// TestAnotherReadyRequestIsWaitedFor proves that an item waits while another request with its ID is
// ready, without delaying other jobs.
func TestAnotherReadyRequestIsWaitedFor(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		cat, dog := h.stored(t, video("one", "a cat")), h.stored(t, video("one", "a dog"))
		h.put(t, h.workSubject(dog), dog)
		h.put(t, h.waitSubject(cat), cat)
		other := h.stored(t, admission.Request{Kind: subject.Video, Tenant: "b", Body: video("", "x").Body})
		h.put(t, h.waitSubject(other), other)
		h.start(t)
		if first, second := h.take(t), h.take(t); first.ID != dog.GetId() || second.ID != other.GetId() {
			t.Fatalf("taken: %v, %v", first, second)
		}
		if err := h.held[0].DoubleAck(t.Context()); err != nil { // as the consumer does with a stale item
			t.Fatal(err)
		}
		if n := h.take(t); n.ID != cat.GetId() || !strings.Contains(string(h.held[2].Data()), "a cat") {
			t.Errorf("taken: %v", n)
		}
	})
}

// TestStaleItemDelaysNoJobOfItsTenant proves the same if the ready request is a long job and the
// window has capacity for one.
func TestStaleItemDelaysNoJobOfItsTenant(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 1)
		dog, cat := h.stored(t, video("one", "a dog")), h.stored(t, video("one", "a cat"))
		if _, err := h.log.Commit(t.Context(), task.FromWork(dog), 0); err != nil {
			t.Fatal(err)
		}
		h.put(t, h.workSubject(dog), dog)
		h.take(t)
		h.put(t, h.waitSubject(cat), cat)
		for _, id := range []string{"two", "three"} {
			item := h.stored(t, video(id, "a bird"))
			h.put(t, h.waitSubject(item), item)
		}
		h.start(t)
		h.serve(t)
		h.serve(t)
		await(t, "only the stale item in the backlog", func() bool { return h.waiting(t) == 1 })
	})
}

// TestLargeItemIsDispatched proves that a large item is dispatched unchanged.
func TestLargeItemIsDispatched(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		r := video("one", strings.Repeat("x", 1<<20))
		c, err := h.Check(r)
		if err != nil {
			t.Fatal(err)
		}
		item := c.Item(t.Context(), r, time.Now())
		h.put(t, h.waitSubject(item), item)
		h.start(t)
		h.take(t)
		got := &genbusv1.WorkItem{}
		if err := proto.Unmarshal(h.held[0].Data(), got); err != nil || !proto.Equal(got, item) {
			t.Errorf("the item changed: %v", err)
		}
	})
}
