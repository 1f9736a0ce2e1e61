package brokertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// Next returns the next message of a consumer. In a cluster, the connected server may not know yet
// which server leads a new consumer, so Next retries.
func Next(t testing.TB, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if err == nil {
			return m
		}
		// The request is lost if the leader changes.
		lost := errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrConsumerLeadershipChanged) || errors.Is(err, jetstream.ErrNoHeartbeat)
		if !lost || broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatal(err)
		}
	}
}
