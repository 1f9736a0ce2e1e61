package broker_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestDelete proves that Delete removes a message and tolerates a missing one, at the start, in the
// middle, and beyond the end of the stream.
func TestDelete(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		stream := b.Names().Wait()
		var last uint64
		for _, id := range []string{"a", "b", "c", "d"} {
			ack, err := b.Publish(t.Context(), nats.NewMsg(b.Names().WaitItem(subject.Video, "r", "t", id)))
			if err != nil {
				t.Fatal(err)
			}
			last = ack.Seq
		}
		gone := map[uint64]bool{}
		for _, seq := range []uint64{last - 1, last - 1, last - 3, last - 3, last + 9} {
			there := seq <= last && !gone[seq]
			if removed, err := b.Delete(t.Context(), stream, seq); err != nil || removed != there {
				t.Errorf("delete %d: %t, %v", seq, removed, err)
			}
			gone[seq] = true
		}
		for seq, want := range map[uint64]error{last: nil, last - 1: broker.ErrNoMessage, last - 2: nil, last - 3: broker.ErrNoMessage} {
			if _, err := b.At(t.Context(), stream, seq); !errors.Is(err, want) {
				t.Errorf("%d: %v, want %v", seq, err, want)
			}
		}
		if _, err := b.Delete(t.Context(), "NONE", 1); err == nil {
			t.Error("a stream that is not there was deleted from")
		}
	})
}

// TestStreamOfThoseThatWaitHasManyReaders proves that several replicas can read the backlog, which
// a work queue would not allow.
func TestStreamOfThoseThatWaitHasManyReaders(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	for _, row := range []struct {
		stream string
		ok     bool
	}{{b.Names().Wait(), true}, {b.Names().Wait(), true}, {b.Names().Work(), false}} {
		_, err := b.JetStream().OrderedConsumer(t.Context(), row.stream, jetstream.OrderedConsumerConfig{HeadersOnly: true})
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.stream, err)
		}
	}
}
