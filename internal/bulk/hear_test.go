package bulk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/bulk"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// ops is GENBUS_OPS.
func ops(t *testing.T, b *broker.Broker) (jetstream.Stream, jetstream.StreamConfig) {
	t.Helper()
	s, err := b.Stream(t.Context(), b.Names().Ops())
	if err != nil {
		t.Fatal(err)
	}
	return s, s.CachedInfo().Config
}

// fill leaves GENBUS_OPS without room, until the function is called.
func fill(t *testing.T, b *broker.Broker) (empty func()) {
	t.Helper()
	s, config := ops(t, b)
	set := func(bytes int64) {
		t.Helper()
		config.MaxBytes = bytes
		if _, err := b.JetStream().UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	room := config.MaxBytes
	set(max(1, int64(s.CachedInfo().State.Bytes)))
	return func() { set(room) }
}

// pausing has each step wait for a moment, as an upstream or a broker would.
func pausing(t *testing.T) func(uint64) error {
	return func(uint64) error { return broker.Wait(t.Context(), time.Millisecond) }
}

// still waits until the items have not changed for as long as a step could take.
func still(t *testing.T, x *items) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for n, since := x.count(), time.Now(); time.Since(since) < 300*time.Millisecond; {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatal("the operation goes on")
		}
		if now := x.count(); now != n {
			n, since = now, time.Now()
		}
	}
}

// TestAnOperationIsStoppedWithoutRoom: GENBUS_OPS is full, and the stop cannot be stored. The
// replica that does the operation hears of it all the same.
func TestAnOperationIsStoppedWithoutRoom(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	x := newItems(1<<40, 10)
	x.before = pausing(t)
	one, two := replica(t, b, "one", x.steps), replica(t, b, "two", x.steps)
	start(t, one)
	start(t, two)
	begin(t, one, "a")
	until(t, one, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > 20 })
	empty := fill(t, b)
	if op, err := two.Stop(t.Context(), "a"); err != nil || op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_STOPPING {
		t.Fatalf("%v, %v", op, err)
	}
	still(t, x)
	empty()
	p := until(t, two, "a", ended)
	if p.GetState() != genbusv1.OperationProgress_STATE_STOPPED || p.GetChanged() != int64(x.count()) || p.GetReplica() != "one" {
		t.Errorf("%v, %d", p, x.count())
	}
}

// TestAStopWithoutRoomAndReplica is refused: nothing would remember it.
func TestAStopWithoutRoomAndReplica(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	left := replica(t, b, "left", newItems(10, 10).steps)
	left.Close(t.Context())
	begin(t, left, "a")
	fill(t, b)
	if _, err := left.Stop(t.Context(), "a"); errcode.CodeOf(err) != errcode.StorageFull {
		t.Error(err)
	}
	if _, err := left.Begin(t.Context(), operation("b")); errcode.CodeOf(err) != errcode.StorageFull {
		t.Error(err)
	}
}

// TestAnOperationWaitsForRoom: what is done while GENBUS_OPS is full would be done once more after
// a crash, so that little is.
func TestAnOperationWaitsForRoom(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	x := newItems(1<<40, 10)
	x.before = pausing(t)
	r := replica(t, b, "one", x.steps)
	start(t, r)
	begin(t, r, "a")
	until(t, r, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > 20 })
	empty := fill(t, b)
	still(t, x)
	empty()
	n := int64(x.count())
	until(t, r, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > n })
	if _, err := r.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	until(t, r, "a", ended)
}

// TestAQuietReplicaIsNotDead: a step takes longer than a replica may be silent. Nothing changes, so
// that nothing is stored, and the others hear that it goes on.
func TestAQuietReplicaIsNotDead(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		x := newItems(10, 10)
		reached, release := make(chan struct{}), make(chan struct{})
		x.before = func(seq uint64) error {
			if seq == 5 {
				close(reached)
				<-release
			}
			return nil
		}
		b := open(t)
		one, two := replica(t, b, "one", x.steps), replica(t, open(t), "two", x.steps)
		start(t, two)
		begin(t, one, "a")
		<-reached
		if err := broker.Wait(t.Context(), bulk.Silent*3/2); err != nil { // longer than it may be silent
			t.Fatal(err)
		}
		close(release)
		p := until(t, one, "a", ended)
		if p.GetState() != genbusv1.OperationProgress_STATE_DONE || p.GetTakeovers() != 0 || p.GetReplica() != "one" {
			t.Errorf("%v", p)
		}
		if s, _ := ops(t, b); s.CachedInfo().State.Msgs != 3 {
			t.Errorf("GENBUS_OPS has %d messages of it: what it is, its beginning and its end are three", s.CachedInfo().State.Msgs)
		}
	})
}

// TestAnOutageIsNoDeath: the replicas do not reach the broker for longer than one of them may be
// silent.
func TestAnOutageIsNoDeath(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	link, err := faultinject.NewLink(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	open := func() *broker.Broker {
		return brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: "nats://" + link.Addr()})
	}
	x := newItems(1<<40, 10)
	x.before = pausing(t)
	one, two := replica(t, open(), "one", x.steps), replica(t, open(), "two", x.steps)
	start(t, one)
	start(t, two)
	begin(t, one, "a")
	before := until(t, two, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > 20 })
	link.Cut(faultinject.Reset)
	if err := broker.Wait(t.Context(), bulk.Silent*3/2); err != nil { // longer than it may be silent
		t.Fatal(err)
	}
	link.Heal()
	until(t, two, "a", func(p *genbusv1.OperationProgress) bool {
		return p.GetUpdatedAt().AsTime().After(before.GetUpdatedAt().AsTime())
	})
	if _, err := two.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if p := until(t, two, "a", ended); p.GetTakeovers() != 0 || p.GetReplica() != "one" {
		t.Errorf("%v", p)
	}
}

// TestAnOutageIsNoTry: a step that cannot succeed while the broker is away does not use up its tries.
func TestAnOutageIsNoTry(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	link, err := faultinject.NewLink(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: "nats://" + link.Addr()})
	x, tried := newItems(1, 1), 0
	x.before = func(uint64) error {
		switch tried++; tried {
		case 1:
			link.Cut(faultinject.Reset)
			for b.Trouble() == nil {
				if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
					return err
				}
			}
		case 10: // of three that it has
			link.Heal()
			return nil
		}
		return errcode.New(errcode.BrokerUnavailable, "not now")
	}
	r := replica(t, b, "one", x.steps)
	begin(t, r, "a")
	if p := until(t, r, "a", ended); p.GetChanged() != 1 || p.GetFailed() != 0 || tried != 10 {
		t.Errorf("%v after %d tries", p, tried)
	}
}

// TestALostStreamForgetsOperations: one goes on, and one is left, while GENBUS_OPS is purged. Neither
// is begun once more, and the first ends.
func TestALostStreamForgetsOperations(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	x := newItems(1<<40, 10)
	x.before = pausing(t)
	one, left := replica(t, b, "one", x.steps), replica(t, b, "left", x.steps)
	start(t, one)
	left.Close(t.Context())
	begin(t, one, "a")
	until(t, one, "a", func(p *genbusv1.OperationProgress) bool { return p.GetDone() > 20 })
	begin(t, left, "b")
	s, _ := ops(t, b)
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	y := newItems(10, 10)
	other := replica(t, b, "other", y.steps)
	begin(t, other, "c") // it has a later sequence
	until(t, other, "c", ended)
	still(t, x)
	if err := broker.Wait(t.Context(), bulk.Silent*3/2); err != nil { // longer than a replica may be silent
		t.Fatal(err)
	}
	n := x.count()
	still(t, x)
	if x.count() != n {
		t.Error("an operation goes on that no one knows")
	}
	for _, id := range []string{"a", "b"} {
		if _, err := one.Get(t.Context(), id); errcode.CodeOf(err) != errcode.OperationNotFound {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := b.Last(t.Context(), b.Names().Ops(), b.Names().OperationProgress(id)); !errors.Is(err, broker.ErrNoMessage) {
			t.Errorf("%s has a progress: %v", id, err)
		}
	}
}
