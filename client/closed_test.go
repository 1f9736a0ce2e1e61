package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// ways has each kind of request with its subject.
var ways = map[string]struct {
	subject string
	send    func(c *client.Client, ctx context.Context) error
}{
	"a submission": {"genbus.call.video.default", func(c *client.Client, ctx context.Context) error {
		_, err := c.SubmitVideo(ctx, video("m", ""))
		return err
	}},
	"a publication": {"genbus.request.video.default", func(c *client.Client, ctx context.Context) error {
		_, err := c.PublishVideo(ctx, video("m", ""))
		return err
	}},
}

// TestNothingWasSent checks that a canceled call or a closed connection reports
// ErrBrokerUnavailable: nothing was sent.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	url := brokertest.Alone(t).ClientURL()
	for name, way := range ways {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if err := way.send(connect(t, url, client.Options{}), over); !errors.Is(err, client.ErrBrokerUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s that is late: %v", name, err)
		}
		nc, c := dial(t, url)
		nc.Close()
		if err := way.send(c, within(t, brokertest.Patience)); !errors.Is(err, client.ErrBrokerUnavailable) || !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("%s on a closed connection: %v", name, err)
		}
	}
}

// TestWhatWasSentBeforeACloseMayBeAccepted checks that closing the connection while waiting for the
// answer reports ErrAcceptanceUnknown.
func TestWhatWasSentBeforeACloseMayBeAccepted(t *testing.T) {
	t.Parallel()
	server := brokertest.Alone(t)
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			genbus, _ := dial(t, server.ClientURL())
			nc, c := dial(t, server.ClientURL())
			if _, err := genbus.Subscribe(way.subject, func(*nats.Msg) { nc.Close() }); err != nil { // it arrives, and gets no answer
				t.Fatal(err)
			}
			if err := genbus.Flush(); err != nil {
				t.Fatal(err)
			}
			err := way.send(c, within(t, brokertest.Patience))
			var e *client.Error
			if !errors.As(err, &e) || e.Code != client.ErrAcceptanceUnknown || e.RequestID == "" || e.JobID != c.JobID(client.Video, e.RequestID) {
				t.Errorf("the request arrived, and its sender is told: %v", err)
			}
		})
	}
}

// dial returns a connection and a client on it.
func dial(t *testing.T, url string) (*nats.Conn, *client.Client) {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.New(nc, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return nc, c
}
