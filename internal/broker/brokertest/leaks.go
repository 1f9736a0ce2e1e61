package brokertest

import "go.uber.org/goleak"

// Leaks returns the goroutines that goleak.VerifyTestMain ignores in tests with a broker.
// Connections and servers left open are still found by their other goroutines.
func Leaks() []goleak.Option {
	return []goleak.Option{
		// ObjectStore.Put starts a goroutine that subscribes late. On a busy machine, Put may have
		// returned by that time, and the goroutine blocks forever.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// A server that is shut down while it creates a stream or elects its leader leaves that
		// stream's store running, and the clock that the stores of all servers share.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	}
}
