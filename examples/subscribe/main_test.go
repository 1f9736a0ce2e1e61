package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestSubscribeEndsWithItsConsumer proves that subscribe returns an error if its consumer is
// deleted.
func TestSubscribeEndsWithItsConsumer(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "GENBUS_TASKS", Subjects: []string{"genbus.task.>"}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- subscribe(ctx, s.ClientURL(), "acme", "_INBOX", "reader") }()
	for waiting := 0; waiting == 0; {
		c, err := js.Consumer(ctx, "GENBUS_TASKS", "reader")
		if err == nil {
			waiting = c.CachedInfo().NumWaiting
		} else if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
	if err := js.DeleteConsumer(ctx, "GENBUS_TASKS", "reader"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, jetstream.ErrConsumerDeleted) {
		t.Errorf("without its consumer it ended with %v", err)
	}
}
