package brokertest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Alone runs a separate server, as one outside of genbus's process, which
// ends with the test. Messages may have 8 MiB.
func Alone(t testing.TB) *server.Server {
	t.Helper()
	return AloneOf(t, 8<<20)
}

// AloneOf is Alone with another length of the largest message, in bytes.
func AloneOf(t testing.TB, maxPayload int32) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		ServerName: "alone", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: maxPayload,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	return s
}
