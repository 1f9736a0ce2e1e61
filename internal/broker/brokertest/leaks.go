package brokertest

import "go.uber.org/goleak"

// Leaks is what goleak.VerifyTestMain overlooks where objects are stored: nats.go's Put
// starts a goroutine which finds out where to listen only when it runs. On a busy machine
// Put can be over by then, and it listens to nothing for ever. A connection that was left
// open is found all the same: it has goroutines of its own.
func Leaks() goleak.Option {
	return goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect")
}
