package natsacl_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestServersOfACluster proves that three servers with cluster.conf form a cluster and do not tell
// clients the addresses of the others. The test changes only addresses and store directories.
func TestServersOfACluster(t *testing.T) {
	brokertest.ThreeNodes(t)
	dir, ports := deploy(t), freePorts(t, 3)
	t.Setenv("NATS_ROUTES_PASSWORD", password("routes"))
	for i, port := range ports {
		t.Setenv(fmt.Sprint("NATS_ROUTE_", i+1), fmt.Sprintf("nats://routes:%s@127.0.0.1:%d", password("routes"), port))
	}
	var all []*server.Options
	for i, port := range ports {
		t.Setenv("NATS_NAME", fmt.Sprint("nats-", i+1))
		o, err := server.ProcessConfigFile(filepath.Join(dir, "cluster.conf"))
		if err != nil {
			t.Fatal(err)
		}
		if !o.SyncAlways || o.Cluster.Port != 6222 || o.HTTPHost != "127.0.0.1" {
			t.Errorf("sync always %t, routes on port %d, monitoring on %s", o.SyncAlways, o.Cluster.Port, o.HTTPHost)
		}
		o.Host, o.Port, o.HTTPPort, o.StoreDir, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, 0, t.TempDir(), true
		o.Cluster.Host, o.Cluster.Port = "127.0.0.1", port
		all = append(all, o)
	}
	nodes := serveAll(t, dir, all)
	nc := nodes[0].connect(t, "service")
	if told := nc.DiscoveredServers(); len(told) > 0 {
		t.Errorf("clients are told of %v", told)
	}
}
