package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// TestASilentServerIsAbandoned proves that pings reveal a connection that drops all packets, and
// that the broker moves to another server.
func TestASilentServerIsAbandoned(t *testing.T) {
	t.Parallel()
	c := brokertest.NewCluster(t)
	var links []*faultinject.Link
	for _, s := range c.Servers {
		l, err := faultinject.NewLink(s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		links = append(links, l)
	}
	b, err := broker.Open(t.Context(), broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Replicas: len(links),
		URL:     "nats://" + links[0].Addr() + ",nats://" + links[1].Addr(),
		Connect: []nats.Option{nats.DontRandomize()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	links[0].Cut(faultinject.Blackhole)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for b.Conn().ConnectedAddr() != links[1].Addr() {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("connected to %q, not to %s", b.Conn().ConnectedAddr(), links[1].Addr())
		}
	}
	t.Logf("left after %s", time.Since(began).Round(time.Second))
}

// TestAReadWhoseConnectionIsLost proves that the read is repeated over the next connection.
func TestAReadWhoseConnectionIsLost(t *testing.T) {
	t.Parallel()
	link, err := faultinject.NewLink(brokertest.Alone(t).Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: "nats://" + link.Addr()})
	link.Cut(faultinject.Blackhole)
	sent, said := b.Conn().Stats().OutMsgs, make(chan error, 1)
	go func() {
		_, err := b.Last(t.Context(), b.Names().Tasks(), b.Names().Task(subject.Video, "t", "none"))
		said <- err
	}()
	for b.Conn().Stats().OutMsgs == sent {
		if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	link.Cut(faultinject.Reset)
	link.Heal()
	if err := <-said; !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("the read said %v", err)
	}
}

// TestAReadWithoutAConnection proves that the read fails at once, because a caller waits for it.
func TestAReadWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
	s.Shutdown()
	for b.Conn().IsConnected() {
		if err := broker.Wait(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	for range 100 {
		if _, err := b.Last(t.Context(), b.Names().Tasks(), "genbus.task.x"); !broker.Unavailable(err) {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took >= 2*broker.ReadTimeout {
		t.Errorf("100 reads took %s", took)
	}
}
