package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/freeport"
)

// Cluster is a JetStream cluster of three servers for one test.
type Cluster struct {
	Servers []*server.Server
}

// NewCluster starts three servers and waits for a meta leader. The test runs only in the full suite
// and holds one of the machine's slots for tests on three nodes.
func NewCluster(t testing.TB) *Cluster {
	t.Helper()
	ThreeNodes(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	servers, err := startServers(dirs, nil)
	t.Cleanup(func() { stopServers(servers) })
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Servers: servers}
	await(t, "a meta leader", c.led)
	return c
}

// led returns nil if there is a meta leader and all servers have joined its cluster.
func (c *Cluster) led() error {
	if slices.ContainsFunc(c.Servers, leads(len(c.Servers))) {
		return nil
	}
	return errors.New("there is none")
}

// leads returns a function that reports whether a server leads a cluster of n peers.
func leads(n int) func(*server.Server) bool {
	return func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == n }
}

// startServers starts one server per directory. After an error, it also returns the servers that it
// has started.
func startServers(dirs []string, accounts []string) ([]*server.Server, error) {
	ports, err := freeport.Ports(len(dirs))
	if err != nil {
		return nil, err
	}
	routes := make([]string, 0, len(ports))
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	servers := make([]*server.Server, 0, len(ports))
	for i, p := range ports {
		s, err := server.NewServer(nodeOptions(i, p, dirs[i], routes, accounts))
		if err != nil {
			return servers, err
		}
		s.Start()
		servers = append(servers, s)
	}
	return servers, nil
}

func nodeOptions(i, port int, dir string, routes []string, accounts []string) *server.Options {
	o := &server.Options{
		ServerName: "n" + strconv.Itoa(i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, JetStreamMaxMemory: 1 << 50, JetStreamMaxStore: 1 << 50, MaxPayload: 8 << 20,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port},
		Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
	}
	for _, a := range accounts {
		own := server.NewAccount(a)
		o.Accounts = append(o.Accounts, own)
		o.Users = append(o.Users, &server.User{Username: a, Password: a, Account: own})
	}
	return o
}

func stopServers(servers []*server.Server) {
	for _, s := range servers {
		s.Shutdown()
		s.WaitForShutdown()
	}
}

// Open connects a broker to the cluster, with three replicas per stream.
func (c *Cluster) Open(t testing.TB) *broker.Broker {
	t.Helper()
	return Open(t, c.options(t))
}

func (c *Cluster) options(t testing.TB) broker.Options {
	urls := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		urls = append(urls, s.ClientURL())
	}
	return broker.Options{Names: subject.Default(), Logger: Logger(t), URL: strings.Join(urls, ","), Replicas: len(c.Servers)}
}
