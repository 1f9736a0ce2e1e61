package brokertest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Alone runs a standalone server until the test ends. Messages may be up to 8 MiB.
func Alone(t testing.TB) *server.Server {
	t.Helper()
	return AloneOf(t, 8<<20)
}

// AloneOf is like Alone with the given max_payload in bytes.
func AloneOf(t testing.TB, maxPayload int32) *server.Server {
	t.Helper()
	return Serve(t, &server.Options{
		ServerName: "alone", JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: maxPayload,
	})
}

// Serve runs a server with the given options on a free port of 127.0.0.1 until the test ends.
func Serve(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
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
