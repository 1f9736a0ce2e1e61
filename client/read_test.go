package client_test

import (
	"crypto/sha256"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestALongReplyIsTheOneThatIsNamed checks that Reply waits for an object that is not visible yet,
// and rejects one with another SHA-256.
func TestALongReplyIsTheOneThatIsNamed(t *testing.T) {
	t.Parallel()
	server, ctx := brokertest.Alone(t), within(t, brokertest.Patience)
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	store, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "B"})
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, server.ClientURL(), client.Options{})
	sum := sha256.Sum256([]byte("the reply"))
	named := &genbusv1.Chat{ReplyRef: &genbusv1.BlobRef{Bucket: "B", Name: "r", Size: 9, Sha256: sum[:]}}

	if data, err := c.Reply(ctx, named); err == nil {
		t.Errorf("what is not there is %q", data)
	}
	var once sync.Once
	sub, err := nc.Subscribe("$JS.API.DIRECT.GET.OBJ_B.>", func(*nats.Msg) {
		once.Do(func() {
			if _, err := store.PutString(ctx, "r", "the reply"); err != nil {
				t.Error(err)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if data, err := c.Reply(ctx, named); err != nil || string(data) != "the reply" {
		t.Errorf("the reply is %q, %v", data, err)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutString(ctx, "r", "another reply"); err != nil {
		t.Fatal(err)
	}
	if data, err := c.Reply(ctx, named); err == nil {
		t.Errorf("another object is taken for the reply: %q", data)
	}
}
