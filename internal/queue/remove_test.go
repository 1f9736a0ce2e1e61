package queue_test

import (
	"errors"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func (s *replica) cancel(t testing.TB, e joblog.Entry) joblog.Entry {
	t.Helper()
	next, err := task.Cancelled(e.Job, time.Now(), errcode.New(errcode.Cancelled, "cancelled").TaskError())
	if err != nil {
		t.Fatal(err)
	}
	if e, err = s.log.Commit(t.Context(), next, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := s.log.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveEnded(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func holdsAtMost(jobs int) func(*config.Route) {
	return func(r *config.Route) { r.MaxQueued = jobs }
}

// TestCancelledJobsKeepNoPlace proves that cancelled jobs free their capacity for all tenants at
// once, whether they were ready or in the backlog, while no job is taken.
func TestCancelledJobsKeepNoPlace(t *testing.T) {
	t.Parallel()
	for name, places := range map[string]int{"ready": 6, "backlog": 0, "both": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				h := newReplica(t, open(t), places, holdsAtMost(12)).start(t)
				var unfinished []joblog.Entry
				for range 58 {
					unfinished = append(unfinished, h.admit(t, "acme", ""))
					if len(unfinished) == 3 {
						h.cancel(t, unfinished[0])
						unfinished = unfinished[1:]
					}
				}
				for range 3 {
					h.admit(t, "globex", "")
				}
				// A job in dispatch may be counted in neither place, or in both.
				await(t, "5 jobs have an item each", func() bool { return h.ready(t)+h.waiting(t) == 5 })
			})
		})
	}
}

// TestTheItemOfASecondSendIsRemovedToo proves that a cancellation removes the items of all sends of
// a request, so that none becomes a new job after an erasure.
func TestTheItemOfASecondSendIsRemovedToo(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		first := h.stored(t, video("one", "a cat"))
		e, err := h.log.Commit(t.Context(), task.FromWork(first), 0)
		if err != nil {
			t.Fatal(err)
		}
		second := h.stored(t, video("one", "a cat"))
		if second.GetAcceptedAt().AsTime().Equal(first.GetAcceptedAt().AsTime()) {
			t.Fatal("both were accepted at one time")
		}
		other := h.stored(t, video("one", "a dog"))
		other.Route = "another"
		h.put(t, h.workSubject(first), first)
		h.put(t, h.waitSubject(second), second)
		h.put(t, h.waitSubject(other), other)
		h.cancel(t, e)
		if ready, backlog := h.ready(t), h.waiting(t); ready != 0 || backlog != 1 {
			t.Errorf("%d items ready and %d in the backlog, want that of the other request alone", ready, backlog)
		}
		later := h.stored(t, video("one", "a cat")) // after the job was erased
		h.put(t, h.waitSubject(later), later)
		end, err := h.log.Get(t.Context(), e.Name())
		if err == nil {
			err = h.RemoveEnded(t.Context(), end)
		}
		if backlog := h.waiting(t); err != nil || backlog != 2 {
			t.Errorf("%d items in the backlog, %v, want that of the later job too", backlog, err)
		}
	})
}

// TestALateRemoveEndedKeepsALaterJob proves that RemoveEnded keeps a later job's item even if the
// earlier job ended later by the fast, but tolerated, clock of another replica.
func TestALateRemoveEndedKeepsALaterJob(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 4)
		first := h.admit(t, "acme", "one")
		next, err := task.Cancelled(first.Job, time.Now().Add(4*time.Second), errcode.New(errcode.Cancelled, "cancelled").TaskError())
		if err != nil {
			t.Fatal(err)
		}
		end, err := h.log.Commit(t.Context(), next, first.Seq)
		if err == nil {
			err = errors.Join(h.RemoveAfter(t.Context(), end, 0), h.log.Erase(t.Context(), end))
		}
		if err != nil {
			t.Fatal(err)
		}
		later := h.stored(t, video("one", "a cat"))
		if !task.ItemOf(later, end.Job) {
			t.Fatal("the later job was accepted after the end")
		}
		h.put(t, h.waitSubject(later), later)
		if err := h.RemoveEnded(t.Context(), end); err != nil || h.waiting(t) != 1 {
			t.Errorf("before its first event: %v; %d items wait, want that of the later job", err, h.waiting(t))
		}
		if _, err := h.log.Commit(t.Context(), task.FromWork(later), 0); err != nil {
			t.Fatal(err)
		}
		if err := h.RemoveEnded(t.Context(), end); err != nil || h.waiting(t) != 1 {
			t.Errorf("after its first event: %v; %d items wait, want that of the later job", err, h.waiting(t))
		}
	})
}

// TestReadyJobsAreFilledUpAfterACancel proves that jobs of the backlog replace cancelled ready jobs
// while no job is taken.
func TestReadyJobsAreFilledUpAfterACancel(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 2).start(t)
		first, second := h.admit(t, "acme", "1"), h.admit(t, "acme", "2")
		for _, id := range []string{"3", "4"} {
			h.admit(t, "globex", id)
		}
		h.indexed(t, 1)
		h.cancel(t, first)
		h.cancel(t, second)
		await(t, "the window is full again", func() bool { return h.ready(t) == 2 && h.waiting(t) == 0 })
	})
}

// TestCancelOfAHeldJobFreesItsHolder proves that the broker delivers another job after a held one
// is cancelled, and accepts the late ack.
func TestCancelOfAHeldJobFreesItsHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 6).start(t)
		cfg := h.consumer.CachedInfo().Config
		cfg.MaxAckPending = 2
		var err error
		if h.consumer, err = h.b.JetStream().UpdateConsumer(t.Context(), h.b.Names().Work(), cfg); err != nil {
			t.Fatal(err)
		}
		jobs := map[string]joblog.Entry{}
		for range 40 {
			e := h.admit(t, "acme", "")
			jobs[e.Job.GetId()] = e
		}
		for range len(jobs) {
			h.cancel(t, jobs[h.take(t).ID]) // the limit is two unacked jobs, so a third comes only after a cancel
		}
		for _, m := range h.held {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := h.ready(t) + h.waiting(t); n != 0 {
			t.Errorf("%d items are left", n)
		}
		await(t, "nothing is pending", func() bool {
			info, err := h.consumer.Info(t.Context())
			return err == nil && info.NumAckPending == 0 && info.NumPending == 0
		})
	})
}

// TestRemoveEndedKeepsWhatHasBegun proves that RemoveEnded keeps the items of submitted and
// attached jobs.
func TestRemoveEndedKeepsWhatHasBegun(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := newReplica(t, open(t), 16)
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		v, _ := e.Job.(*genbusv1.VideoTask)
		next, err := task.Submitting(v, time.Now(), task.Submission{Upstream: "u", Until: time.Now().Add(time.Minute), Deadline: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		if e, err = s.log.Commit(t.Context(), next, e.Seq); err != nil {
			t.Fatal(err)
		}
		if s.cancel(t, e); s.ready(t) != 1 {
			t.Error("the item of a job that had begun is gone")
		}
		item := s.item(t, e.Job.GetId())
		item.Id, item.Attached = subject.JobID(subject.Video, "acme", "attached"), &genbusv1.AttachedTask{Upstream: "u", UpstreamTaskId: "up-1", Code: "orphaned_submission"}
		s.put(t, s.waitSubject(item), item)
		attached, err := s.log.Commit(t.Context(), task.FromWork(item), 0)
		if err != nil {
			t.Fatal(err)
		}
		if s.cancel(t, attached); s.waiting(t) != 1 {
			t.Error("the item of an attached job is gone")
		}
	})
}

// TestCancelledAfterARefusal proves that a cancellation removes the item of a job whose submission
// was refused, but not of one that may have been accepted.
func TestCancelledAfterARefusal(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), noReadyJobs)
		for submissions, left := range []int{0, 0, 1} {
			e := h.admit(t, "acme", "")
			for range submissions {
				next, err := task.Submitting(e.Job.(*genbusv1.VideoTask), time.Now(), task.Submission{Upstream: "u", Until: time.Now(), Deadline: time.Now().Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				if e, err = h.log.Commit(t.Context(), next, e.Seq); err != nil {
					t.Fatal(err)
				}
			}
			if submissions > 0 {
				next, err := task.Requeued(e.Job.(*genbusv1.VideoTask), time.Now(), time.Now(), "dead_letters_full")
				if err != nil {
					t.Fatal(err)
				}
				if e, err = h.log.Commit(t.Context(), next, e.Seq); err != nil {
					t.Fatal(err)
				}
			}
			if h.cancel(t, e); h.waiting(t) != left {
				t.Errorf("%d items wait after a cancel with %d submissions", h.waiting(t), submissions)
			}
		}
	})
}
