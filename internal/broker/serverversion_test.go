package broker_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestServerVersion proves that genbus does not start on a server that is too old, and stops taking
// jobs if it reconnects to one.
func TestServerVersion(t *testing.T) {
	t.Parallel()
	const refusal = "NATS server alone has version 2.15.0; upgrade it to 2.15.1 or newer (older servers do not sync a compacted Raft log, so a power loss could lose confirmed writes)"
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), URL: withVersion(t, brokertest.Alone(t), "2.15.0"), Logger: brokertest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	for call, err := range map[string]error{"Ensure": b.Streams().Ensure(t.Context()), "Ready": b.Ready(t.Context())} {
		if err == nil || err.Error() != refusal {
			t.Errorf("%s: %v, want %s", call, err, refusal)
		}
	}
}

// withVersion returns the URL of a proxy that changes the version that a server reports.
func withVersion(t *testing.T, s *server.Server, version string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				defer upstream.Close()
				_, _ = io.Copy(upstream, client)
			}()
			go func() {
				defer client.Close()
				for r := bufio.NewReader(upstream); err == nil; {
					var line string
					line, err = r.ReadString('\n')
					if strings.HasPrefix(line, "INFO ") {
						line = strings.Replace(line, `"version":"`+server.VERSION, `"version":"`+version, 1)
					}
					_, _ = io.WriteString(client, line)
				}
			}()
		}
	}()
	return "nats://" + l.Addr().String()
}
