package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestReadyNamesAStreamOnce proves that the error about a missing stream names it exactly once.
func TestReadyNamesAStreamOnce(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	for _, name := range []string{b.Names().Wait(), b.Names().Tasks()} {
		if err := b.JetStream().DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := b.Ready(t.Context()); err == nil || strings.Count(err.Error(), name) != 1 {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestARefusedStartNamesAStreamOnce proves the same if JetStream (here a responder) refuses to look
// up or create a stream.
func TestARefusedStartNamesAStreamOnce(t *testing.T) {
	t.Parallel()
	s := brokertest.Serve(t, &server.Options{})
	for call, name := range map[string]string{"INFO": subject.Default().Work(), "CREATE": subject.Default().Requests()} {
		b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Conn().Subscribe("$JS.API.STREAM.>", func(m *nats.Msg) {
			answer := `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`
			if m.Subject == "$JS.API.STREAM."+call+"."+name {
				answer = `{"error":{"code":500,"err_code":10023,"description":"insufficient resources"}}`
			}
			_ = m.Respond([]byte(answer))
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.Streams().Ensure(t.Context()); err == nil || strings.Count(err.Error(), name) != 1 || !strings.Contains(err.Error(), "insufficient resources") {
			t.Errorf("%s: %v", call, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAReadWaitsForALeader proves that a read is retried while JetStream (here a responder) has no
// leader for the stream.
func TestAReadWaitsForALeader(t *testing.T) {
	t.Parallel()
	b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: brokertest.Serve(t, &server.Options{}).ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	asked := 0
	if _, err := b.Conn().Subscribe("$JS.API.STREAM.MSG.GET.S", func(m *nats.Msg) {
		answer := `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
		if asked++; asked == 3 {
			answer = `{"message":{"subject":"a","seq":7,"time":"2026-01-31T00:00:00Z"}}`
		}
		_ = m.Respond([]byte(answer))
	}); err != nil {
		t.Fatal(err)
	}
	if m, err := b.Last(t.Context(), "S", "a"); err != nil || m.Seq != 7 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestAPublishWithoutAStreamIsKnown proves that a caller whose deadline ends first learns that
// nothing was stored.
func TestAPublishWithoutAStreamIsKnown(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if _, err := b.Publish(ctx, nats.NewMsg("no.stream")); !errors.Is(err, broker.ErrUnavailable) || errors.Is(err, broker.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}
