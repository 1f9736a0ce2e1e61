package consumer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
)

// TestFetchIsSilentDuringAnOutage proves that a missing connection is logged once for each outage.
func TestFetchIsSilentDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	nc, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "GENBUS_WORK", Subjects: []string{"work"}}); err != nil {
		t.Fatal(err)
	}
	cons, err := js.CreateConsumer(t.Context(), "GENBUS_WORK", jetstream.ConsumerConfig{Durable: "video"})
	if err != nil {
		t.Fatal(err)
	}
	gone := nc.StatusChanged(nats.RECONNECTING)
	s.Shutdown()
	<-gone
	_, err = (&fetcher{c: &Consumer{fetchWait: hold.FetchWait}, cons: cons, free: newSlots(1)}).fetch(t.Context())
	if err == nil {
		t.Fatal("a message was fetched without a server")
	}
	var log bytes.Buffer
	said := fetchLog{log: slog.New(slog.NewTextHandler(&log, nil)), consumer: "video"}
	const line = `msg="could not fetch messages" consumer=video error="not connected to NATS (logged once per outage)"`
	for outage := range 2 {
		said.failed(err)
		said.failed(err)
		if n := strings.Count(log.String(), line); n != outage+1 || n != strings.Count(log.String(), "\n") {
			t.Errorf("in outage %d it is said %d times:\n%s", outage, n, log.String())
		}
		said.succeeded()
	}
	said.failed(jetstream.ErrConsumerNotFound)
	said.failed(jetstream.ErrConsumerNotFound)
	if n := strings.Count(log.String(), "consumer not found"); n != 2 {
		t.Errorf("another failure is said %d times:\n%s", n, log.String())
	}
}
