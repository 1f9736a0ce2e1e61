package admission_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// workItems counts what the work stream has.
func (s *bundle) workItems(t testing.TB) uint64 {
	t.Helper()
	stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// hold takes the only work item there is, as a consumer does.
func (s *bundle) hold(t testing.TB) jetstream.Msg {
	t.Helper()
	stream, err := s.b.JetStream().Stream(t.Context(), s.b.Names().Work())
	if err != nil {
		t.Fatal(err)
	}
	c, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWithdrawWaitsForTheHolder: the item goes by its holder's own ack, however
// long the patience is.
func TestWithdrawWaitsForTheHolder(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := s.hold(t)
		var let atomic.Bool
		withdrawn := make(chan error, 1)
		go func() {
			err := s.Withdraw(t.Context(), e.Name(), time.Hour)
			if !let.Load() {
				err = errors.Join(err, errors.New("withdrawn before the ack"))
			}
			withdrawn <- err
		}()
		let.Store(true)
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-withdrawn; err != nil || s.workItems(t) != 0 {
			t.Errorf("%v, and %d items are left", err, s.workItems(t))
		}
	})
}

// TestWithdrawTakesTheItemAway from a holder that does not let go, and from no
// other job.
func TestWithdrawTakesTheItemAway(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		s := setup(t, open(t))
		e, err := s.Admit(t.Context(), video("", "a cat"))
		if err != nil {
			t.Fatal(err)
		}
		m := s.hold(t)
		other, err := s.Admit(t.Context(), video("", "a dog"))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Withdraw(t.Context(), e.Name(), 0); err != nil || s.workItems(t) != 1 {
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
			t.Errorf("%d items are left", s.workItems(t))
		}
	})
}

func TestWithdrawOfWhatIsNotThere(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	n := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: "video_none"}
	if err := s.Withdraw(t.Context(), n, time.Hour); err != nil {
		t.Error(err)
	}
}

func TestWithdrawEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	e, err := s.Admit(t.Context(), video("", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := s.Withdraw(ctx, e.Name(), time.Hour); !errors.Is(err, context.DeadlineExceeded) || s.workItems(t) != 1 {
		t.Errorf("%v, and %d items are left", err, s.workItems(t))
	}
}
