package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/test/faultinject"
)

// backedUp is a service process with a log file.
type backedUp struct {
	*member
	log string
}

const backupConfig = `
nats: {replicas: %d}
upstreams:
  up: {base_url: %q}
routes:
  - {name: video, kind: video, models: ["*"], upstream: up, ack_wait: 5s, max_in_flight: 2, ready_jobs: 1, poll: {interval: 100ms}}
operator_keys:
  - {name: ops, key_sha256: %s}
`

// startBackedUp starts a process with an embedded store in data or on the servers at url.
func startBackedUp(t *testing.T, upstream, data, url string, replicas int) *backedUp {
	t.Helper()
	dir, sum := t.TempDir(), sha256.Sum256([]byte(opsKey))
	file := filepath.Join(dir, "genbus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, backupConfig, replicas, upstream, hex.EncodeToString(sum[:])), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &backedUp{&member{bed: &bed{t: t}, base: "http://" + freeAddr(t), grpc: freeAddr(t)}, filepath.Join(dir, "log")}
	ctx, cancel := context.WithTimeout(t.Context(), bedPatience)
	defer cancel()
	var err error
	m.Process, err = faultinject.Start(ctx, faultinject.Spec{
		Path: os.Args[0], Args: []string{"serve"}, Log: m.log, Ready: m.ready,
		Env: append(os.Environ(), runAsService+"=1", "GENBUS_CONFIG="+file, "GENBUS_DATA_DIR="+data, "GENBUS_NATS_URL="+url, "GENBUS_NATS_LISTEN=none",
			"GENBUS_NATS_SYNC_ALWAYS=false", "GENBUS_HTTP_ADDR="+strings.TrimPrefix(m.base, "http://"), "GENBUS_GRPC_ADDR="+m.grpc),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Kill(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			log, _ := os.ReadFile(m.log)
			t.Logf("the service at %s:\n%s", m.base, log)
		}
	})
	return m
}

// directory is the data directory of an embedded server. It is copied while the service is stopped.
type directory struct {
	t          *testing.T
	data, copy string
}

func newDirectory(t *testing.T) store {
	t.Helper()
	dir := t.TempDir()
	return &directory{t, filepath.Join(dir, "data"), filepath.Join(dir, "copy")}
}

func (d *directory) serve(upstream string) *backedUp {
	d.t.Helper()
	return startBackedUp(d.t, upstream, d.data, "", 1)
}

func (d *directory) save(m *backedUp, _ func()) {
	d.t.Helper()
	mustDo(d.t, m.Terminate)
	ctx, cancel := context.WithTimeout(d.t.Context(), bedPatience)
	defer cancel()
	mustDo(d.t, func() error {
		return errors.Join(m.Wait(ctx), os.CopyFS(d.copy, os.DirFS(d.data)), m.Restart(ctx))
	})
}

func (d *directory) lose() {
	d.t.Helper()
	mustDo(d.t, func() error { return errors.Join(os.RemoveAll(d.data), os.Rename(d.copy, d.data)) })
}

// threeNodes is a cluster. Its streams are copied while the service runs.
type threeNodes struct {
	t     *testing.T
	url   string
	nc    *nats.Conn
	saved []*brokertest.Snapshot
}

func newThreeNodes(t *testing.T) store {
	t.Helper()
	brokertest.ThreeNodes(t)
	n := &threeNodes{t: t}
	n.start()
	return n
}

func (n *threeNodes) start() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), bedPatience)
	defer cancel()
	nodes, err := faultinject.StartNodes(ctx, faultinject.NodesOptions{Dir: n.t.TempDir()})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := nodes.Close(); err != nil {
			n.t.Error(err)
		}
	})
	n.url, n.nc = nodes.ClientURLs(), bedOn(n.t, nodes.ClientURLs()).nc
}

func (n *threeNodes) serve(upstream string) *backedUp {
	n.t.Helper()
	return startBackedUp(n.t, upstream, "", n.url, 3)
}

// save copies the streams in the order in which a job passes through them. A job that advances
// during the backup is then seen twice rather than never. It omits the inbox: in a restored inbox,
// requests without an ID would become new jobs.
func (n *threeNodes) save(_ *backedUp, during func()) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), bedPatience)
	defer cancel()
	for _, stream := range []string{
		"GENBUS_WAIT", "GENBUS_WORK", "GENBUS_TASKS", "GENBUS_DEAD", "GENBUS_REJECTED", "OBJ_GENBUS_BODIES_default", "GENBUS_USAGE", "GENBUS_OPS",
	} {
		if stream == "GENBUS_TASKS" {
			during()
		}
		s, err := brokertest.TakeSnapshot(ctx, n.nc, stream)
		if err != nil {
			n.t.Fatal(err)
		}
		n.saved = append(n.saved, s)
	}
}

// lose restores the streams to new nodes. The order does not matter while no service runs.
func (n *threeNodes) lose() {
	n.t.Helper()
	n.start()
	ctx, cancel := context.WithTimeout(n.t.Context(), bedPatience)
	defer cancel()
	for _, s := range n.saved {
		mustDo(n.t, func() error { return s.Restore(ctx, n.nc) })
	}
}
