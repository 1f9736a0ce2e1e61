package publisher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

const tenant, chatID = "acme", "chat_1"

func sample(i int) []byte {
	return fmt.Appendf(nil, `{"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"word %d"},"logprobs":null,"finish_reason":null}]}`, i)
}

func newWriter(t testing.TB, b *broker.Broker, enc publisher.Encoding) *publisher.ChunkWriter {
	t.Helper()
	w := publisher.NewChunks(t.Context(), b, publisher.Encoder{Names: b.Names(), Encoding: enc}, broker.NewBodies(b), telemetry.NewMetrics("test"), tenant, chatID, 1)
	t.Cleanup(w.Close)
	return w
}

func flush(t testing.TB, w *publisher.ChunkWriter, want uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	count, err := w.Flush(ctx)
	if err != nil || count != want {
		t.Fatalf("flushed %d blocks, %v; want %d", count, err, want)
	}
}

// stored reads the chat's chunks from the stream.
func stored(t testing.TB, b *broker.Broker) []*genbusv1.ChatChunk {
	t.Helper()
	var out []*genbusv1.ChatChunk
	for seq := uint64(1); ; {
		m, err := b.Next(t.Context(), b.Names().Chunks(), b.Names().Chunk(tenant, chatID), seq)
		if errors.Is(err, broker.ErrNoMessage) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := publisher.DecodeChunk(m.Header, m.Data)
		if err != nil {
			t.Fatal(err)
		}
		if c.GetTime() == nil || c.GetAttempt() != 1 || c.GetId() != chatID {
			t.Errorf("chunk %v", c)
		}
		out = append(out, c)
		seq = m.Seq + 1
	}
}

// read assembles the chunks like a reader: it drops repeats and fails on a gap.
func read(t testing.TB, chunks []*genbusv1.ChatChunk) [][]byte {
	t.Helper()
	var out [][]byte
	for _, c := range chunks {
		if c.GetIndex() > uint64(len(out)) {
			t.Fatalf("chunk %d follows block %d", c.GetIndex(), len(out))
		}
		for i, block := range c.GetBlocks() {
			if c.GetIndex()+uint64(i) == uint64(len(out)) {
				out = append(out, block)
			}
		}
	}
	return out
}

func equal(t testing.TB, got [][]byte, want int) {
	t.Helper()
	if len(got) != want {
		t.Fatalf("%d blocks, want %d", len(got), want)
	}
	for i, block := range got {
		if !bytes.Equal(block, sample(i)) {
			t.Fatalf("block %d is %s", i, block)
		}
	}
}

func TestChunksAreTheBlocksInOrder(t *testing.T) {
	t.Parallel()
	for _, enc := range []publisher.Encoding{publisher.Protobuf, publisher.JSON} {
		t.Run(string(enc), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			w := newWriter(t, b, enc)
			const blocks = 2000
			buf := make([]byte, 0, 1024)
			for i := range blocks {
				buf = append(buf[:0], sample(i)...) // Add must copy: the buffer is reused
				if !w.Add(buf) {
					t.Fatalf("block %d was given up", i)
				}
			}
			flush(t, w, blocks)
			chunks := stored(t, b)
			equal(t, read(t, chunks), blocks)
			if len(chunks) > blocks/2 {
				t.Errorf("%d messages for a backlog of %d blocks", len(chunks), blocks)
			}
			for _, c := range chunks {
				size := 0
				for _, block := range c.GetBlocks() {
					size += len(block)
				}
				if len(c.GetBlocks()) > 256 || size > 128<<10 {
					t.Errorf("a message of %d blocks, %d bytes", len(c.GetBlocks()), size)
				}
			}
		})
	}
}

func TestIdleWriterPublishesEachBlockAtOnce(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	w := newWriter(t, b, "")
	live := make(chan *nats.Msg, 10)
	sub, err := b.Conn().ChanSubscribe(b.Names().LiveChunk(tenant, chatID), live)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe() //nolint:errcheck // the connection closes right after
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		w.Add(sample(i))
		m := <-live
		if c, err := publisher.DecodeChunk(m.Header, m.Data); err != nil || c.GetIndex() != uint64(i) || len(c.GetBlocks()) != 1 {
			t.Errorf("block %d came as %v, %v", i, c, err)
		}
		flush(t, w, uint64(i+1))
	}
	chunks := stored(t, b)
	if len(chunks) != 5 {
		t.Errorf("%d messages for 5 blocks, one at a time", len(chunks))
	}
	equal(t, read(t, chunks), 5)
}

func TestLargeBlockGoesToTheObjectStore(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	w := newWriter(t, b, "")
	large := []byte(`"` + strings.Repeat("x", publisher.ClaimCheck) + `"`)
	fits := []byte(`"` + strings.Repeat("y", publisher.ClaimCheck-2) + `"`)
	for _, block := range [][]byte{sample(0), large, fits, sample(3)} {
		w.Add(block)
	}
	flush(t, w, 4)
	var got [][]byte
	for _, c := range stored(t, b) {
		if c.GetIndex() != uint64(len(got)) {
			t.Fatalf("chunk %d follows block %d", c.GetIndex(), len(got))
		}
		if ref := c.GetBlocksRef(); ref != nil {
			data, err := broker.NewBodies(b).Get(t.Context(), publisher.BodyOf(ref))
			if err != nil || len(c.GetBlocks()) > 0 {
				t.Fatalf("%d blocks beside the reference, %v", len(c.GetBlocks()), err)
			}
			got = append(got, data)
			if len(got) != 2 {
				t.Errorf("block %d is in the object store", len(got)-1)
			}
			continue
		}
		got = append(got, c.GetBlocks()...)
	}
	if len(got) != 4 || !bytes.Equal(got[1], large) || !bytes.Equal(got[2], fits) {
		t.Errorf("%d blocks came back", len(got))
	}
}

func TestClosedWriterGivesUpAndCounts(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	metrics := telemetry.NewMetrics("test")
	w := publisher.NewChunks(t.Context(), b, publisher.Encoder{Names: b.Names()}, broker.NewBodies(b), metrics, tenant, chatID, 1)
	w.Add(sample(0))
	flush(t, w, 1)
	w.Close()
	w.Close()
	if w.Add(sample(1)) {
		t.Error("a closed writer took a block")
	}
	count, err := w.Flush(t.Context())
	if !errors.Is(err, publisher.ErrBlocksLost) || count != 2 {
		t.Errorf("flush gave %d, %v", count, err)
	}
	if n := counter(t, metrics, "genbus_chunk_events_dropped_total"); n != 1 {
		t.Errorf("%v dropped", n)
	}
	if n := counter(t, metrics, "genbus_chunk_events_published_total"); n != 1 {
		t.Errorf("%v published", n)
	}
}

func counter(t testing.TB, m *telemetry.Metrics, name string) float64 {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
