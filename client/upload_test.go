package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/baggage"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// deniedPublishing is a client whose user may not publish to some subjects, and hears of
// each refusal.
func deniedPublishing(t *testing.T, jetStream bool, subjects ...string) (*client.Client, *nats.Conn, <-chan error) {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: jetStream, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "app", Password: "app", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stopNATS(s) })
	refused := make(chan error, 100)
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("app", "app"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.New(nc, client.Options{Wait: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return c, nc, refused
}

// large is a request that no message holds.
func large(nc *nats.Conn) *genbusv1.VideoRequest {
	r := video("sandbox-video", "")
	r.GetVideo().Prompt = strings.Repeat("a", int(nc.MaxPayload()))
	return r
}

// TestOldRefusalIsNoReason: an upload without an answer is tried again, whatever NATS
// refused to this user before.
func TestOldRefusalIsNoReason(t *testing.T) {
	t.Parallel()
	c, nc, refused := deniedPublishing(t, false, "theirs")
	if err := nc.Publish("theirs", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync("$JS.API.>"); err != nil { // asked, and silent
		t.Fatal(err)
	}
	if _, err := c.SubmitVideo(within(t, time.Minute), large(nc)); !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestDeniedUploadIsToldAtOnce: another try would be denied too.
func TestDeniedUploadIsToldAtOnce(t *testing.T) {
	t.Parallel()
	c, nc, _ := deniedPublishing(t, true, "$JS.API.STREAM.INFO.OBJ_GENBUS_BODIES_default")
	_, err := c.SubmitVideo(within(t, time.Minute), large(nc))
	if !errors.Is(err, client.ErrBodyTooLarge) || !strings.Contains(err.Error(), "Permissions Violation") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

// TestLongHeadersAreCounted: what fits without them is uploaded with them.
func TestLongHeadersAreCounted(t *testing.T) {
	t.Parallel()
	c, nc, _ := deniedPublishing(t, true, "$JS.API.STREAM.INFO.OBJ_GENBUS_BODIES_default")
	r := large(nc)
	r.GetVideo().Prompt = r.GetVideo().GetPrompt()[:nc.MaxPayload()-1000]
	var members []baggage.Member
	for _, key := range []string{"a", "b"} {
		m, err := baggage.NewMember(key, strings.Repeat("v", 3000))
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	bag, err := baggage.New(members...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.SubmitVideo(baggage.ContextWithBaggage(within(t, time.Minute), bag), r); !errors.Is(err, client.ErrBodyTooLarge) {
		t.Errorf("got %v", err)
	}
}
