package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// natsCommand runs a NATS server in its own process. Without --sync it syncs to disk at the
// server's default interval.
type natsCommand struct {
	Store   string   `required:"" help:"Directory of the streams." type:"path"`
	Name    string   `help:"Name of the server." default:"bench"`
	Cluster []string `help:"Addresses of all servers of the cluster, this one first. A single server needs no addresses."`
	Sync    bool     `help:"Sync every write to disk."`
}

// maxStore is larger than the reservations of all streams together.
const maxStore = 1 << 40

// Run serves until ctx ends.
func (c natsCommand) Run(ctx context.Context) error {
	s, err := c.start()
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\nmonitoring on http://%s\n", s.ClientURL(), s.MonitorAddr())
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func (c natsCommand) start() (*server.Server, error) {
	opts := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: c.Store, JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: maxStore, MaxPayload: 8 << 20, SyncAlways: c.Sync,
	}
	if err := c.join(opts); err != nil {
		return nil, err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	s.ConfigureLogger() // to stderr, whose last part is shown if the server fails
	s.Start()
	if !s.ReadyForConnections(startTimeout) || s.MonitorAddr() == nil || !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server was not ready after %s", startTimeout)
	}
	return s, nil
}

// join configures the server's cluster.
func (c natsCommand) join(opts *server.Options) error {
	if len(c.Cluster) == 0 {
		return nil
	}
	own, err := netip.ParseAddrPort(c.Cluster[0])
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	opts.Cluster = server.ClusterOpts{Name: "bench", Host: own.Addr().String(), Port: int(own.Port())}
	opts.Routes = server.RoutesFromStr("nats://" + strings.Join(c.Cluster[1:], ",nats://"))
	return nil
}

var (
	bannerServer  = regexp.MustCompile(`^listening on (nats://\S+)`)
	bannerMonitor = regexp.MustCompile(`^monitoring on (http://\S+)`)
)

type natsServer struct {
	*child
	url     string
	monitor string
	http    *http.Client
}

// startNATS starts a server process with its streams in dir/data and extra flags of natsCommand.
func (w *workshop) startNATS(ctx context.Context, name string, flags ...string) (*natsServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	c, found, err := startChild(ctx, dir, "nats", append([]string{self, "nats", "--store", filepath.Join(dir, "data")}, flags...), childEnv(), bannerServer, bannerMonitor)
	if err != nil {
		return nil, err
	}
	return &natsServer{child: c, url: found[0], monitor: found[1], http: newClient(1)}, nil
}

// discard stops the server. Its streams are not needed.
func (s *natsServer) discard() {
	s.http.CloseIdleConnections()
	s.kill()
}

// connectionName is the name of genbus's connections to the server.
const connectionName = "genbus"

// traffic counts the messages of genbus's connections since they were opened. In counts messages to
// the server, and Out counts messages from it.
type traffic struct {
	In, Out int64
	ids     []uint64 // of the connections
}

// traffic reads the server's counts. Each replica has one connection.
func (s *natsServer) traffic(ctx context.Context, replicas int) (traffic, error) {
	if err := s.alive(); err != nil {
		return traffic{}, err
	}
	t, err := readTraffic(ctx, s.http, s.monitor)
	if err == nil && len(t.ids) != replicas {
		err = fmt.Errorf("the NATS server has %d connections named %s, want one for each of %d replicas", len(t.ids), connectionName, replicas)
	}
	return t, err
}

func readTraffic(ctx context.Context, client *http.Client, monitor string) (t traffic, err error) {
	var all server.Connz
	if err := readMonitor(ctx, client, monitor+"/connz", &all); err != nil {
		return t, fmt.Errorf("connections of the NATS server: %w", err)
	}
	for _, c := range all.Conns {
		if c.Name == connectionName {
			t.In, t.Out, t.ids = t.In+c.InMsgs, t.Out+c.OutMsgs, append(t.ids, c.Cid)
		}
	}
	slices.Sort(t.ids)
	return t, nil
}

func readMonitor(ctx context.Context, client *http.Client, page string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// since returns the messages counted since before. A reconnect resets the counts and is an error.
func (t traffic) since(before traffic) (traffic, error) {
	if !slices.Equal(t.ids, before.ids) {
		return traffic{}, errors.New("a replica connected to the NATS server again during the measurement")
	}
	return traffic{In: t.In - before.In, Out: t.Out - before.Out, ids: t.ids}, nil
}
