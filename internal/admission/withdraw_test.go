package admission_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/task"
)

// TestWithdrawTakesTheItemOut of the queue where nobody lets it go, and no other
// job's, nor that of a later job of the same id.
func TestWithdrawTakesTheItemOut(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		e, err := s.Admit(t.Context(), video("one", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := s.hold(t)
		other, err := s.Admit(t.Context(), video("", "a dog"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Withdraw(t.Context(), e, 0); err != nil || s.workItems(t) != 1 {
			t.Errorf("%v, and %d items are left", err, s.workItems(t))
		}
		if got := s.item(t, other.Job.GetId()); got.GetId() != other.Job.GetId() {
			t.Errorf("left is %v", got)
		}
		// The ack that comes too late takes nothing with it.
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.workItems(t) != 1 {
			t.Errorf("after the ack %d items are left", s.workItems(t))
		}
		end, err := task.Cancelled(e.Job, time.Now(), fault.New(fault.Cancelled, "x").TaskError())
		if err != nil {
			t.Fatal(err)
		}
		if e, err = s.log.Commit(t.Context(), end, e.Seq); err != nil {
			t.Fatal(err)
		}
		if err := s.log.Erase(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		later, err := s.Admit(t.Context(), video("one", "a cat"))
		if err != nil || later.Job.GetId() != e.Job.GetId() {
			t.Fatalf("%v, %v", later, err)
		}
		if err := s.Withdraw(t.Context(), e, 0); err != nil || s.workItems(t) != 2 {
			t.Errorf("%v, and %d items are left", err, s.workItems(t))
		}
	})
}

// TestWithdrawIsPatient: within its patience a holder lets go by itself.
func TestWithdrawIsPatient(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	e, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Withdraw(ctx, e, time.Hour); !errors.Is(err, context.DeadlineExceeded) || s.workItems(t) != 1 {
		t.Errorf("%v, and %d items are left", err, s.workItems(t))
	}
}
