package brokertest

import "go.uber.org/goleak"

// Leaks is what goleak.VerifyTestMain overlooks where there is a broker. A connection or a
// server that was left open is found all the same: it has goroutines of its own.
func Leaks() []goleak.Option {
	return []goleak.Option{
		// nats.go's Put of an object starts a goroutine which finds out where to listen only
		// when it runs. On a busy machine Put can be over by then, and it listens to nothing
		// for ever.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"),
		// A server that is shut down while it makes a stream or elects its leader does not
		// stop the store of that one, nor the clock that the stores of all servers share.
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"),
	}
}
