package brokertest

import "go.uber.org/goleak"

// Leaks returns options that make goleak.VerifyTestMain ignore some goroutines in tests with a
// broker. Connections and servers that were left open are still detected, because they have other
// goroutines.
func Leaks() []goleak.Option {
	return []goleak.Option{
		// ObjectStore.Put starts a goroutine that listens on a status channel. On a busy machine,
		// Put may return and clear the channel before the goroutine reads it. The goroutine then
		// blocks forever on a nil channel.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// If a server is shut down while it creates a stream or while the stream elects a leader,
		// it leaves two goroutines running: the stream's store, and the clock that the stores of
		// all servers share.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	}
}
