package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

const bedPatience = time.Minute

// bed is a NATS server shared by service processes.
type bed struct {
	t     *testing.T
	nats  string // the server's address, bypassing the links
	js    jetstream.JetStream
	nc    *nats.Conn
	names subject.Space
}

// newBed starts a NATS server in the test process.
func newBed(t *testing.T) *bed {
	t.Helper()
	return bedOn(t, brokertest.Alone(t).ClientURL())
}

// bedOn uses running NATS servers.
func bedOn(t *testing.T, url string) *bed {
	t.Helper()
	brokertest.Full(t, "runs replicas in processes of their own")
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return &bed{t: t, nats: url, js: js, nc: nc, names: subject.Default()}
}

// until polls ask until it returns nil.
func (b *bed) until(what string, ask func(context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), bedPatience)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			b.t.Fatalf("%s: not within %s: %v", what, bedPatience, err)
		}
	}
}

func mustDo(t *testing.T, f func() error) {
	t.Helper()
	if err := f(); err != nil {
		t.Fatal(err)
	}
}
