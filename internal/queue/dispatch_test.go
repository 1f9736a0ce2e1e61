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

// TestItemThatNobodyRecordedIsRecorded: admission died after it stored the item.
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

// TestOldItemWithoutALogIsRecorded: it was accepted while the log was away, and no replica was
// left to record it. It has never been ready, so it cannot have begun.
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

// TestErasedItemThatWasRecordedIsNotANewJob: it came to wait after its first event,
// and was erased before its turn. It is dispatched with its mark, for the consumer
// to look twice.
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

// TestItemThatTheLogHasLostIsLeftToTheConsumer, which writes its letter.
func TestItemThatTheLogHasLostIsLeftToTheConsumer(t *testing.T) {
	t.Parallel()
	h := newReplica(t, brokertest.Single(t), 4)
	item := h.stored(t, video("one", "a cat"))
	h.putRecorded(t, h.waitSubject(item), item, 1000) // the stream has been restored from before
	h.start(t)
	h.take(t)
	if _, err := h.log.Get(t.Context(), nameOf(item)); !errors.Is(err, joblog.ErrNotFound) || h.held[0].Headers().Get(subject.HeaderRecorded) != "1000" {
		t.Errorf("%v, marked %q", err, h.held[0].Headers().Get(subject.HeaderRecorded))
	}
}

// TestDispatcherThatDiedBeforeItDeleted: the job is ready and in the backlog. It stays
// ready once, and the other item goes. So does that of a second send of the request.
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

// TestJobThatHasEndedTakesNobodysPlace: it had its turn, or was cancelled while it
// waited. Its end is in the feed before its item goes.
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

// TestUnfoundJobIsDispatched: the letter that its end leaves is written by the replica
// that takes it there.
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

// cancelled writes the log of a job that was cancelled before it began, without its
// copy in the feed.
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

// TestEndOfAnotherJobUnderTheIDIsNotThisOnes: the job of the log was erased, or is
// about to be. The one that waits is dispatched all the same.
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

// TestAnotherReadyRequestIsWaitedFor: it has the id, and another body. The item
// that waits is kept until it is known whose the job is, and delays no other job.
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

// TestStaleItemDelaysNoJobOfItsTenant: two bodies were sent under one id, the log has the ready
// one, which runs for long, and the window has one place.
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

// TestLargeItemIsDispatched as it is.
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
