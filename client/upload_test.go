package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
)

// TestOldRefusalIsNoReason: an upload that nobody answers is tried again, whatever NATS
// refused to this user before.
func TestOldRefusalIsNoReason(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "app", Password: "app", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"theirs"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer stopNATS(s)
	refused := make(chan error, 1)
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("app", "app"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := nc.Publish("theirs", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync("$JS.API.>"); err != nil { // asked, and silent
		t.Fatal(err)
	}
	c, err := client.New(nc, client.Options{Wait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	large := video("sandbox-video", "")
	large.GetVideo().Prompt = strings.Repeat("a", int(nc.MaxPayload()))
	if _, err := c.SubmitVideo(within(t, time.Minute), large); !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("got %v", err)
	}
}
