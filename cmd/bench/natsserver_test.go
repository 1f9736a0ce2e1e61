package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// TestTraffic proves that only connections with genbus's name are counted.
func TestTraffic(t *testing.T) {
	t.Parallel()
	s, err := natsCommand{Store: t.TempDir(), Name: "bench"}.start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	connect := func(name string) *nats.Conn {
		nc, err := nats.Connect(s.ClientURL(), nats.Name(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	one, two, other := connect(connectionName), connect(connectionName), connect("bench")
	monitor, client := "http://"+s.MonitorAddr().String(), newClient(1)
	t.Cleanup(client.CloseIdleConnections)
	before, err := readTraffic(t.Context(), client, monitor)
	if err != nil || len(before.ids) != 2 {
		t.Fatalf("%+v, %v", before, err)
	}
	for _, nc := range []*nats.Conn{one, other} {
		if _, err := nc.SubscribeSync("subject"); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, nc := range []*nats.Conn{one, two, two, other} {
		if err := nc.Publish("subject", nil); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	// The server updates its counts after it has answered.
	var got traffic
	for end := time.Now().Add(30 * time.Second); (got.In != 3 || got.Out != 4) && time.Now().Before(end); {
		after, err := readTraffic(t.Context(), client, monitor)
		if err != nil {
			t.Fatal(err)
		}
		if got, err = after.since(before); err != nil {
			t.Fatal(err)
		}
	}
	if got.In != 3 || got.Out != 4 {
		t.Errorf("counted %+v", got)
	}
	connect(connectionName)
	after, err := readTraffic(t.Context(), client, monitor)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := after.since(before); err == nil {
		t.Error("a connection that is new was taken for an old one")
	}
	if _, err := readTraffic(t.Context(), client, monitor+"/nothing"); err == nil {
		t.Error("an answer that is not there was read")
	}
}

func TestScanOfTheServer(t *testing.T) {
	t.Parallel()
	text := "listening on nats://127.0.0.1:1\nmonitoring on http://127.0.0.1:2\n"
	got := scan(strings.NewReader(text), []*regexp.Regexp{bannerServer, bannerMonitor})
	if diff := cmp.Diff([]string{"nats://127.0.0.1:1", "http://127.0.0.1:2"}, got); diff != "" {
		t.Error(diff)
	}
}
