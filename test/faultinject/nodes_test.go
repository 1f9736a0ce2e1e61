package faultinject

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

type world struct {
	t     *testing.T
	nodes *Nodes
	nc    *nats.Conn
	js    jetstream.JetStream
}

const testStream = "TEST"

func newWorld(t *testing.T) *world {
	t.Helper()
	brokertest.ThreeNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	nodes, err := StartNodes(ctx, NodesOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, nodes: nodes}
	w.nc, w.js = w.connect(nodes.ClientURLs())
	_, err = w.js.CreateStream(ctx, jetstream.StreamConfig{Name: testStream, Subjects: []string{"test"}, Replicas: nodes.Len()})
	if err == nil {
		_, err = w.js.CreateConsumer(ctx, testStream, jetstream.ConsumerConfig{Durable: "reader"})
	}
	if err == nil {
		err = nodes.WaitHealthy(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) connect(urls string) (*nats.Conn, jetstream.JetStream) {
	w.t.Helper()
	nc, err := nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.PingInterval(time.Second), nats.MaxPingsOutstanding(2))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	return nc, js
}

func (w *world) publish(js jetstream.JetStream) {
	w.t.Helper()
	await(w.t, "a stored message", func() bool {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.Publish(ctx, "test", []byte("x"))
		return err == nil
	})
}

func (w *world) leader() int {
	w.t.Helper()
	var at int
	await(w.t, "a leader", func() bool {
		var err error
		at, err = w.nodes.LeaderOf(w.t.Context(), testStream)
		return err == nil
	})
	return at
}

func (w *world) leads(i int) bool {
	n := w.nodes.nodes[i]
	v, err := n.view(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	g := v.groups()[testStream]
	return g != nil && g.Leader == n.spec.Name
}

func (w *world) healthy() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if err := w.nodes.WaitHealthy(ctx); err != nil {
		w.t.Fatal(err)
	}
}

// TestNodes proves that each fault affects only its target, that the cluster keeps working, and
// that a returning node catches up.
func TestNodes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*world){"isolation": (*world).isolate, "kill": (*world).kill, "clients cut off": (*world).cutClients} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.publish(w.js)
			// Servers must not tell clients addresses that bypass the links.
			if others := w.nc.DiscoveredServers(); len(others) > 0 {
				t.Errorf("the servers advertise %v", others)
			}
			fault(w)
		})
	}
}

func (w *world) isolate() {
	old := w.leader()
	alone, aloneJS := w.connect(w.nodes.ClientURL(old))
	w.publish(aloneJS)
	w.nodes.Isolate(old)
	await(w.t, "another leader", func() bool {
		at, err := w.nodes.LeaderOf(w.t.Context(), testStream)
		return err == nil && at != old
	})
	w.publish(w.js)
	await(w.t, "the old leader to lose its lead", func() bool { return !w.leads(old) })
	ctx, cancel := context.WithTimeout(w.t.Context(), quiet)
	defer cancel()
	if _, err := aloneJS.Publish(ctx, "test", []byte("x")); err == nil {
		w.t.Error("an isolated node stored a message")
	}
	if err := w.nodes.WaitHealthy(ctx); err == nil {
		w.t.Error("a cluster without one of its nodes is healthy")
	}
	w.nodes.Rejoin(old)
	w.healthy()
	w.publish(aloneJS)
	alone.Close()
}

func (w *world) routes(i int) []string {
	w.t.Helper()
	names, err := w.nodes.nodes[i].neighbours(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.Compact(names)
}

func (w *world) between(a, b int) []*Link {
	pair := []*node{w.nodes.nodes[a], w.nodes.nodes[b]}
	var links []*Link
	for _, r := range w.nodes.routes {
		if slices.Contains(pair, r.from) && slices.Contains(pair, r.to) {
			links = append(links, r.link)
		}
	}
	return links
}

// restartUnlinked restarts a node without a link to one of the others. The third node tells that
// one about it, and the two would connect directly if they knew an address.
func (w *world) restartUnlinked(ctx context.Context, at int) {
	w.t.Helper()
	other, third := (at+1)%3, (at+2)%3
	links := w.between(at, other)
	if len(links) != 2 {
		w.t.Fatalf("%d links between two nodes", len(links))
	}
	for _, l := range links {
		l.Cut(Reset)
	}
	if err := w.nodes.Restart(ctx, at); err != nil {
		w.t.Fatal(err)
	}
	name := w.nodes.nodes[third].spec.Name
	await(w.t, "the one route", func() bool { return slices.Contains(w.routes(at), name) })
	if !Pause(ctx, 10*quiet) || !slices.Equal(w.routes(at), []string{name}) {
		w.t.Errorf("node %d has routes to %v, past its links", at, w.routes(at))
	}
	for _, l := range links {
		l.Heal()
	}
}

func (w *world) kill() {
	old := w.leader()
	if err := w.nodes.Kill(old); err != nil {
		w.t.Fatal(err)
	}
	w.publish(w.js)
	if at := w.leader(); at == old {
		w.t.Errorf("the dead node %d leads", old)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	w.restartUnlinked(ctx, old)
	w.healthy()
}

func (w *world) cutClients() {
	const at = 1
	nc, js := w.connect(w.nodes.ClientURL(at))
	w.nodes.CutClients(at)
	await(w.t, "the disconnect", func() bool { return !nc.IsConnected() })
	w.healthy() // the cluster does not notice
	w.nodes.HealClients(at)
	w.publish(js)
}

func TestStartNodesFails(t *testing.T) {
	t.Parallel()
	if _, err := StartNodes(t.Context(), NodesOptions{Dir: t.TempDir(), N: 1}); err == nil {
		t.Error("a cluster of one")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := StartNodes(ctx, NodesOptions{Dir: t.TempDir()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cluster in no time: %v", err)
	}
}
