package broker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/faulttest"
	"github.com/genbus/genbus/internal/subject"
)

// TestASilentServerIsLeft: the network drops what goes to a server and what comes
// from it, and closes nothing. Another server is found by the pings.
func TestASilentServerIsLeft(t *testing.T) {
	t.Parallel()
	c := brokertest.NewCluster(t)
	var links []*faulttest.Link
	for _, s := range c.Servers {
		l, err := faulttest.NewLink(s.Addr().String())
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
	back := make(chan struct{})
	b.Conn().SetReconnectHandler(func(*nats.Conn) { close(back) })
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	links[0].Cut(faulttest.Blackhole)
	began := time.Now()
	select {
	case <-back:
	case <-time.After(time.Minute):
		t.Fatal("it holds on to the silent server")
	}
	if at := b.Conn().ConnectedAddr(); at != links[1].Addr() {
		t.Errorf("connected to %s, not to %s", at, links[1].Addr())
	}
	t.Logf("left after %s", time.Since(began).Round(time.Second))
}
