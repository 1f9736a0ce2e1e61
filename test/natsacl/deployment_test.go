package natsacl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/test/freeport"
)

// deployed is the directory of the configuration under test.
const deployed = "../../deploy/nats"

// witness is the name prefix of the unlimited users that the tests add, one for each account. A
// witness sees all messages of its account.
const witness = "witness-"

// deploy copies the configuration, adds tenants as docs/nats-security.md describes and returns the
// directory.
func deploy(t testing.TB, tenants ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deployed)); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range tenants {
		add(t, dir, tenant)
	}
	return dir
}

func add(t testing.TB, dir, tenant string) {
	t.Helper()
	for _, name := range []string{"acme.conf", "acme/tasks.consumer.json", "acme/tasks.stream.json", "acme/chunks.stream.json"} {
		rewrite(t, filepath.Join(dir, name), filepath.Join(dir, strings.ReplaceAll(name, "acme", tenant)),
			"acme", tenant, "ACME", strings.ToUpper(tenant))
	}
	include := filepath.Join(dir, "tenants.conf")
	rewrite(t, include, include, `include "acme.conf"`, `include "acme.conf"`+"\ninclude \""+tenant+".conf\"")
}

// rewrite copies a file and replaces words, given as pairs of old and new.
func rewrite(t testing.TB, from, to string, words ...string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(strings.NewReplacer(words...).Replace(string(data))), 0o600); err != nil {
		t.Fatal(err)
	}
}

type node struct {
	*server.Server
	dir string
	log *serverLog
}

// options loads the configuration in dir. It changes only the address and the store directory, and
// adds the witnesses.
func options(t testing.TB, dir string) *server.Options {
	t.Helper()
	o, err := server.ProcessConfigFile(filepath.Join(dir, "genbus.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.StoreDir, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true
	for _, account := range o.Accounts {
		o.Users = append(o.Users, &server.User{Username: witness + account.Name, Password: password(witness), Account: account})
	}
	return o
}

func start(t testing.TB, dir string) *node {
	t.Helper()
	return serve(t, dir, options(t, dir))
}

func serve(t testing.TB, dir string, o *server.Options) *node {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Server: s, dir: dir, log: &serverLog{}}
	s.SetLoggerV2(n.log, false, false, false)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
		if t.Failed() {
			t.Logf("the server's log:\n%s", strings.Join(n.log.all(), "\n"))
		}
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	return n
}

// tryToStart returns the error of starting a server with this configuration.
func tryToStart(t testing.TB, dir string) error {
	t.Helper()
	o, err := server.ProcessConfigFile(filepath.Join(dir, "genbus.conf"))
	if err != nil {
		return err
	}
	o.DontListen, o.StoreDir, o.NoSigs, o.NoLog = true, t.TempDir(), true, true
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.Shutdown()
	return nil
}

func startCluster(t testing.TB, dir string) []*node {
	t.Helper()
	brokertest.ThreeNodes(t)
	ports := freePorts(t, 3)
	var routes []string
	for _, p := range ports {
		routes = append(routes, "nats://127.0.0.1:"+strconv.Itoa(p))
	}
	var all []*server.Options
	for i, p := range ports {
		o := options(t, dir)
		o.ServerName, o.Routes = "n"+strconv.Itoa(i), server.RoutesFromStr(strings.Join(routes, ","))
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: p}
		all = append(all, o)
	}
	return serveAll(t, dir, all)
}

func freePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, err := freeport.Ports(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// serveAll starts the servers and waits for the cluster's leader.
func serveAll(t testing.TB, dir string, all []*server.Options) (nodes []*node) {
	t.Helper()
	for _, o := range all {
		nodes = append(nodes, serve(t, dir, o))
	}
	await(t, "a leader of the cluster", func() error {
		for _, n := range nodes {
			if n.JetStreamIsLeader() && len(n.JetStreamClusterPeers()) == len(nodes) {
				return nil
			}
		}
		return errors.New("there is none")
	})
	return nodes
}

func (n *node) file(t testing.TB, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(os.DirFS(n.dir), name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

type serverLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *serverLog) add(format string, args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, sprintf(format, args))
}

func (l *serverLog) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.lines...)
}

// violations returns the lines about refused permissions.
func (l *serverLog) violations() (out []string) {
	for _, line := range l.all() {
		if strings.Contains(line, "Violation") {
			out = append(out, line)
		}
	}
	return out
}

func (l *serverLog) Noticef(string, ...any)            {}
func (l *serverLog) Debugf(string, ...any)             {}
func (l *serverLog) Tracef(string, ...any)             {}
func (l *serverLog) Warnf(format string, args ...any)  { l.add(format, args) }
func (l *serverLog) Errorf(format string, args ...any) { l.add(format, args) }
func (l *serverLog) Fatalf(format string, args ...any) { l.add(format, args) }
