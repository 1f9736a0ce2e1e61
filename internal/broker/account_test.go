package broker_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestAStartNamesTheLimitOfTheAccount proves that a failed start names the account's limit and the
// key that satisfies it.
func TestAStartNamesTheLimitOfTheAccount(t *testing.T) {
	t.Parallel()
	free := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1}
	bytesOf := func(l server.JetStreamAccountLimits) server.JetStreamAccountLimits {
		l.MaxBytesRequired = true
		return l
	}
	streams := func(n int) server.JetStreamAccountLimits { l := free; l.MaxStreams = n; return l }
	for name, c := range map[string]struct {
		account server.JetStreamAccountLimits
		limits  broker.Limits
		payload int32
		want    string // in the error; empty for none
	}{
		"no max_bytes of jobs":    {account: bytesOf(free), limits: broker.Limits{}, want: "nats.streams.work.max_bytes"},
		"no max_bytes of bodies":  {account: bytesOf(free), limits: broker.Limits{WorkMaxBytes: 1 << 20}, want: "nats.streams.bodies.max_bytes"},
		"max_bytes of all":        {account: bytesOf(free), limits: broker.Limits{WorkMaxBytes: 1 << 20, BodiesReserved: 1 << 20}},
		"too few streams":         {account: streams(9), want: "max_streams"},
		"streams for one tenant":  {account: streams(10)},
		"messages that are small": {account: free, payload: 32 << 10, want: "max_payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := brokertest.AloneOf(t, max(c.payload, 64<<10))
			if c.payload != 0 {
				s = brokertest.AloneOf(t, c.payload)
			}
			if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": c.account}); err != nil {
				t.Fatal(err)
			}
			b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), URL: s.ClientURL(), Limits: c.limits, Logger: brokertest.Logger(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = b.Close() })
			err = b.Streams().Ensure(t.Context())
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the start says %v; want %s", err, c.want)
			}
			if c.want != "" {
				return
			}
			if _, err := broker.NewBodies(b).Put(t.Context(), "acme", "reply-x", make([]byte, 100<<10)); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAFailingStoreOfAnExternalServer proves that a failing store is reported until a write to the
// job log succeeds.
func TestAFailingStoreOfAnExternalServer(t *testing.T) {
	t.Parallel()
	s := brokertest.Alone(t)
	b := brokertest.Open(t, broker.Options{Names: subject.Default(), URL: s.ClientURL(), Logger: brokertest.Logger(t)})
	allow := func(bytes int64) {
		t.Helper()
		l := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: bytes, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1}
		if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": l}); err != nil {
			t.Fatal(err)
		}
	}
	event := func() error { return store(t.Context(), b, "video_1", 1<<10) }
	if err := event(); err != nil || b.StoreError() != nil {
		t.Fatal(err, b.StoreError())
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := store(gone, b, "video_1", 1); err == nil || b.StoreError() != nil {
		t.Errorf("a caller that left: %v; the store: %v", err, b.StoreError())
	}
	allow(1)
	if err := event(); !errors.Is(err, broker.ErrStorage) || !errors.Is(b.StoreError(), broker.ErrStorage) {
		t.Errorf("the write: %v; the store: %v", err, b.StoreError())
	}
	allow(-1)
	if err := event(); err != nil || b.StoreError() != nil {
		t.Errorf("the write: %v; the store: %v", err, b.StoreError())
	}
}

func store(ctx context.Context, b *broker.Broker, id string, size int) error {
	_, err := b.Publish(ctx, &nats.Msg{Subject: b.Names().Task(subject.Video, "acme", id), Data: make([]byte, size)})
	return err
}
