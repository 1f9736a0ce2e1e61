package publisher_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/telemetry"
)

// BenchmarkChunksBackToBack streams blocks without pauses on 16 writers.
func BenchmarkChunksBackToBack(b *testing.B) {
	br := brokertest.Single(b)
	enc := publisher.Encoder{Names: br.Names()}
	bodies := broker.NewBodies(br)
	block := sample(1)
	b.ReportAllocs()
	for round := range b.N {
		var wg sync.WaitGroup
		for s := range 16 {
			wg.Go(func() {
				w := publisher.NewChunks(b.Context(), br, enc, bodies, telemetry.NewMetrics("test"), "t", fmt.Sprintf("chat_%d_%d", round, s), 1)
				defer w.Close()
				for range 500 {
					w.Add(block)
				}
				if _, err := w.Flush(b.Context()); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16/500, "ns/block")
}

// BenchmarkChunksPaced publishes one block per message.
func BenchmarkChunksPaced(b *testing.B) {
	br := brokertest.Single(b)
	w := publisher.NewChunks(b.Context(), br, publisher.Encoder{Names: br.Names()}, broker.NewBodies(br), telemetry.NewMetrics("test"), "t", "chat_1", 1)
	defer w.Close()
	block := sample(1)
	b.ReportAllocs()
	for range b.N {
		w.Add(block)
		if _, err := w.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeChunk(b *testing.B) {
	br := brokertest.Single(b)
	enc := publisher.Encoder{Names: br.Names()}
	c := &genbusv1.ChatChunk{Id: "chat_1", Attempt: 1, Blocks: [][]byte{sample(1)}, Time: timestamppb.New(time.Now())}
	b.ReportAllocs()
	for range b.N {
		if _, err := enc.Chunk(b.Context(), "t", c); err != nil {
			b.Fatal(err)
		}
	}
}
