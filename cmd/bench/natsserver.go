package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// natsCommand is a NATS server outside of genbus's process, with the server's own
// defaults for syncing to disk.
type natsCommand struct {
	Store string `required:"" help:"Directory of the streams." type:"path"`
}

// maxStore is far more than the streams of any measurement reserve.
const maxStore = 1 << 40

// Run serves until ctx ends.
func (c natsCommand) Run(ctx context.Context) error {
	s, err := startNATS(c.Store)
	if err != nil {
		return err
	}
	fmt.Printf("listening on %s\nmonitoring on http://%s\n", s.ClientURL(), s.MonitorAddr())
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func startNATS(store string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		ServerName: "bench", Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT, NoSigs: true,
		JetStream: true, StoreDir: store, JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: maxStore, MaxPayload: 8 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("NATS server: %w", err)
	}
	s.ConfigureLogger() // to standard error: the end of it is shown when the server fails
	s.Start()
	if !s.ReadyForConnections(startTimeout) || s.MonitorAddr() == nil || !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("the NATS server was not ready after %s", startTimeout)
	}
	return s, nil
}

var (
	bannerServer  = regexp.MustCompile(`^listening on (nats://\S+)`)
	bannerMonitor = regexp.MustCompile(`^monitoring on (http://\S+)`)
)

// natsServer is a running bench nats.
type natsServer struct {
	*child
	url     string
	monitor string
	http    *http.Client
}

// startNATS runs a server in a process of its own, with its streams in dir/data.
func (w *workshop) startNATS(ctx context.Context, name string) (*natsServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.dir, name)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	c, found, err := startChild(ctx, dir, "nats", []string{self, "nats", "--store", filepath.Join(dir, "data")}, childEnv(), bannerServer, bannerMonitor)
	if err != nil {
		return nil, err
	}
	return &natsServer{child: c, url: found[0], monitor: found[1], http: newClient(1)}, nil
}

// discard stops a server whose streams are thrown away.
func (s *natsServer) discard() {
	s.http.CloseIdleConnections()
	s.kill()
}

// connectionName is how genbus names its connection to the server.
const connectionName = "genbus"

// traffic counts the messages of genbus's connections since they were opened. In is to
// the server, Out from it.
type traffic struct {
	In, Out int64
	ids     []uint64 // of the connections
}

// traffic reads the counts of the server. Each replica has one connection.
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, monitor+"/connz", nil)
	if err != nil {
		return t, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return t, fmt.Errorf("connections of the NATS server: %w", err)
	}
	defer resp.Body.Close()
	var all server.Connz
	if resp.StatusCode != http.StatusOK {
		return t, fmt.Errorf("connections of the NATS server: status %d", resp.StatusCode)
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
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

// since is what was counted after before. A connection that was opened in between
// counts from zero, so there is no difference then.
func (t traffic) since(before traffic) (traffic, error) {
	if !slices.Equal(t.ids, before.ids) {
		return traffic{}, errors.New("a replica connected to the NATS server again during the measurement")
	}
	return traffic{In: t.In - before.In, Out: t.Out - before.Out, ids: t.ids}, nil
}
