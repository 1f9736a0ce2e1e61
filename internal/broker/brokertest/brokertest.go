// Package brokertest runs real JetStream servers inside a test: one node, or
// three that replicate. It is for tests only.
package brokertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// Logger writes into the test's own log.
func Logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// Single opens a broker with an embedded server of its own, and its streams.
func Single(t testing.TB) *broker.Broker {
	t.Helper()
	return open(t, broker.Options{
		Names: subject.Default(), Logger: Logger(t),
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
}

// Cluster is three servers of one JetStream cluster.
type Cluster struct {
	Servers []*server.Server
}

// clusters lets one cluster live at a time in a test binary: three servers that
// elect leaders beside three more, on a small machine, mostly measure patience.
var clusters = make(chan struct{}, 1)

// NewCluster starts three servers and waits until they have a leader.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	clusters <- struct{}{}
	t.Cleanup(func() { <-clusters })
	ports := freePorts(t, 3)
	routes := make([]string, 0, len(ports))
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	c := &Cluster{}
	for i, p := range ports {
		c.Servers = append(c.Servers, startNode(t, "n"+strconv.Itoa(i), p, routes))
	}
	await(t, "a meta leader", func() error {
		if slices.ContainsFunc(c.Servers, leads(len(ports))) {
			return nil
		}
		return errors.New("there is none")
	})
	return c
}

// leads reports whether a server leads a cluster of n.
func leads(n int) func(*server.Server) bool {
	return func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n }
}

func startNode(t testing.TB, name string, port int, routes []string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 256 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: 8 << 20,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
		Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

// Open connects a broker to the cluster, with three replicas of each stream.
func (c *Cluster) Open(t testing.TB) *broker.Broker {
	t.Helper()
	urls := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		urls = append(urls, s.ClientURL())
	}
	return open(t, broker.Options{Names: subject.Default(), Logger: Logger(t), URL: strings.Join(urls, ","), Replicas: len(c.Servers)})
}

func open(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := broker.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	await(t, "the streams", func() error {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return b.EnsureStreams(try)
	})
	return b
}

// Each runs a test on one node and on three, because JetStream answers a
// compare-and-set differently there. open gives a further connection to the
// same streams.
func Each(t *testing.T, test func(t *testing.T, open func(t testing.TB) *broker.Broker)) {
	t.Run("R1", func(t *testing.T) {
		t.Parallel()
		b := Single(t)
		test(t, func(testing.TB) *broker.Broker { return b })
	})
	t.Run("R3", func(t *testing.T) {
		t.Parallel()
		c := NewCluster(t)
		test(t, c.Open)
	})
}

// await asks again until it is so: a server has no event for it.
func await(t testing.TB, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		if broker.Wait(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("%s: not within a minute: %v", what, err)
		}
	}
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	out := make([]int, 0, n)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l.Addr().(*net.TCPAddr).Port)
		defer l.Close()
	}
	return out
}
