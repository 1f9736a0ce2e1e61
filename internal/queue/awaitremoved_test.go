package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestAwaitRemovedWaitsForTheHolder proves that AwaitRemoved returns once the holder has acked.
func TestAwaitRemovedWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := newReplica(t, open(t), 16)
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := brokertest.Next(t, s.consumer)
		var let atomic.Bool
		released := make(chan error, 1)
		go func() {
			err := s.Items.AwaitRemoved(t.Context(), e.Name(), time.Hour)
			if !let.Load() {
				err = errors.Join(err, errors.New("released before the ack"))
			}
			released <- err
		}()
		let.Store(true)
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-released; err != nil || s.ready(t) != 0 {
			t.Errorf("%v, and %d items are left", err, s.ready(t))
		}
	})
}

// TestReleasedTakesNothingAway proves that an unresponsive holder keeps its item, and that the
// caller gets still_held.
func TestReleasedTakesNothingAway(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := newReplica(t, open(t), 16)
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := brokertest.Next(t, s.consumer)
		err = s.Items.AwaitRemoved(t.Context(), e.Name(), 0)
		held := errcode.From(err)
		if err == nil || held.Code != errcode.StillHeld || held.RetryAfter <= 0 || held.JobID != e.Job.GetId() {
			t.Errorf("released: %v", err)
		}
		if got := s.item(t, e.Job.GetId()); got.GetId() != e.Job.GetId() {
			t.Errorf("left is %v", got)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Items.AwaitRemoved(t.Context(), e.Name(), time.Hour); err != nil {
			t.Errorf("after the ack: %v", err)
		}
	})
}

// TestReleasedLooksAtNoOtherJob proves that the items of other jobs do not matter.
func TestReleasedLooksAtNoOtherJob(t *testing.T) {
	t.Parallel()
	s := newReplica(t, brokertest.Single(t), 16)
	if _, err := s.Admit(t.Context(), video("", "a dog")); err != nil {
		t.Fatal(err)
	}
	n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_none"}
	if err := s.Items.AwaitRemoved(t.Context(), n, 0); err != nil {
		t.Error(err)
	}
}

// TestRemoveAfterRemovesAWaitingItem proves that RemoveAfter removes the item of a job that no
// replica has started, tolerates a late ack of it, and keeps the items of other jobs.
func TestRemoveAfterRemovesAWaitingItem(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := newReplica(t, open(t), 16)
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := brokertest.Next(t, s.consumer)
		other, err := s.Admit(t.Context(), video("", "a dog"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a cancellation may be repeated
			if err := s.RemoveAfter(t.Context(), e, 0); err != nil || s.ready(t) != 1 {
				t.Errorf("%v, and %d items are left", err, s.ready(t))
			}
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.item(t, other.Job.GetId()); got.GetId() != other.Job.GetId() {
			t.Errorf("left is %v", got)
		}
	})
}

// TestRemoveAfterKeepsALaterJob proves that RemoveAfter for an erased job keeps the item of a later
// job with its ID.
func TestRemoveAfterKeepsALaterJob(t *testing.T) {
	t.Parallel()
	s := newReplica(t, brokertest.Single(t), 16)
	later, err := s.Admit(t.Context(), video("one", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	item := s.item(t, later.Job.GetId())
	item.AcceptedAt = timestamppb.New(item.GetAcceptedAt().AsTime().Add(-time.Minute))
	if err := s.RemoveAfter(t.Context(), joblog.Entry{Event: task.FromWork(item)}, 0); err != nil || s.ready(t) != 1 {
		t.Errorf("%v, and %d items are left", err, s.ready(t))
	}
}

func TestReleasedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := newReplica(t, brokertest.Single(t), 16)
	e, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Items.AwaitRemoved(ctx, e.Name(), time.Hour); !errors.Is(err, context.DeadlineExceeded) || s.ready(t) != 1 {
		t.Errorf("%v, and %d items are left", err, s.ready(t))
	}
}
