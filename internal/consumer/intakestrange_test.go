package consumer

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestEverythingLeavesTheInbox proves that messages with invalid texts leave the inbox too, with
// those texts replaced or cut in the dead letter.
func TestEverythingLeavesTheInbox(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	tenants := map[string]string{ // as sent, and as in the dead letter
		"\xff\xfe": "\ufffd", "\xed\xa0\x80": "\ufffd", "a\x01b": "a\x01b", "\xffacme": "\ufffdacme", "acme": "acme",
		strings.Repeat("\xff", 3000): "\ufffd", strings.Repeat("\xffa", 500): strings.Repeat("\ufffda", 500),
	}
	for tenant := range tenants {
		m := nats.NewMsg(b.Names().Request(subject.Video, tenant))
		m.Data = []byte("x")
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]bool{}
	for _, tenant := range tenants {
		want[tenant] = true
	}
	for _, l := range awaitDeadLetters(t, b, len(tenants)) {
		if !want[l.GetTenant()] || !strings.HasPrefix(l.GetSubject(), "genbus.request.video."+l.GetTenant()) || string(l.GetData()) != "x" {
			t.Errorf("tenant %.20q, subject %.40q, data %q", l.GetTenant(), l.GetSubject(), l.GetData())
		}
	}
	awaitEmptyInbox(t, b)
}

func awaitEmptyInbox(t *testing.T, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		s, err := b.Stream(ctx, b.Names().Requests())
		if err != nil {
			t.Fatal(err)
		}
		if s.CachedInfo().State.Msgs == 0 {
			return
		}
		if err := broker.Wait(ctx, 10_000_000); err != nil {
			t.Fatalf("%d messages stay in the inbox", s.CachedInfo().State.Msgs)
		}
	}
}
