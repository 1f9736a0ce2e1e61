package faultinject

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"
)

// nodeEnv is the environment variable that holds the nodeSpec of a node's process as JSON.
const nodeEnv = "FAULTTEST_NODE"

const (
	nodeStart = 30 * time.Second
	// unreachable is the address that nodes advertise. Nothing listens there. NoAdvertise alone
	// hides addresses from clients but not from routes, and a route that bypasses its Link could
	// not be cut.
	unreachable = "127.0.0.1:1"

	// routePool is the server's default. Each of these routes carries different accounts, and one
	// more carries the system account. Messages are lost while any of these routes is missing.
	routePool     = 3
	routesPerPair = routePool + 1

	nodeMemory  = 256 << 20
	nodeStore   = 16 << 30
	nodePayload = 8 << 20 // default, as for the embedded server of genbus
)

// nodeSpec configures one node.
type nodeSpec struct {
	Name       string   `json:"name"`
	Dir        string   `json:"dir"`
	Client     int      `json:"client"` // ports
	Route      int      `json:"route"`
	Monitor    int      `json:"monitor"`
	Routes     []string `json:"routes"` // addresses of the links to the other nodes
	SyncAlways bool     `json:"sync_always"`
	MaxPayload int      `json:"max_payload"`
}

// MaybeServeNode runs a node and does not return if Nodes started this process. Otherwise it does
// nothing. Nodes starts the current program again, so main and TestMain must call MaybeServeNode
// first.
func MaybeServeNode() {
	raw, ok := os.LookupEnv(nodeEnv)
	if !ok {
		return
	}
	if err := serveNode(raw); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveNode runs a server until a signal arrives or the parent process ends.
func serveNode(raw string) error {
	var spec nodeSpec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		return fmt.Errorf("%s: %w", nodeEnv, err)
	}
	s, err := server.NewServer(spec.options())
	if err != nil {
		return fmt.Errorf("node %s: %w", spec.Name, err)
	}
	s.ConfigureLogger()
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // stdin ends when the parent does
		end <- syscall.SIGTERM
	}()
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(nodeStart) {
		return errors.New("node " + spec.Name + " did not start in time")
	}
	<-end
	return nil
}

func (n nodeSpec) options() *server.Options {
	return &server.Options{
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Client, HTTPHost: "127.0.0.1", HTTPPort: n.Monitor,
		JetStream: true, StoreDir: n.Dir, SyncAlways: n.SyncAlways, DisableJetStreamBanner: true,
		JetStreamMaxMemory: nodeMemory, JetStreamMaxStore: nodeStore, MaxPayload: int32(n.MaxPayload),
		NoSigs: true, Logtime: true,
		Cluster: server.ClusterOpts{
			Name: "faultinject", Host: "127.0.0.1", Port: n.Route, PoolSize: routePool,
			NoAdvertise: true, Advertise: unreachable,
		},
		Routes: server.RoutesFromStr(routeURLs(n.Routes)),
	}
}

func routeURLs(addrs []string) string {
	urls := make([]string, 0, len(addrs))
	for _, a := range addrs {
		urls = append(urls, "nats://"+a)
	}
	return strings.Join(urls, ",")
}
