package inline_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

// BenchmarkStream reads 16 streams of 500 blocks, which come as fast as they
// can, with and without their events.
func BenchmarkStream(b *testing.B) {
	const streams, blocks = 16, 500
	event := []byte("data: " + piece(1) + "\n\n")
	answer := append(bytes.Repeat(event, blocks-1), "data: "+stop+"\n\ndata: [DONE]\n\n"...)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for rest := answer; len(rest) > 0; {
			n := min(len(rest), 8*len(event))
			_, _ = w.Write(rest[:n])
			w.(http.Flusher).Flush()
			rest = rest[n:]
		}
	}))
	defer up.Close()
	for _, events := range []string{config.InlineEventsOff, config.InlineEventsOn} {
		b.Run("events="+events, func(b *testing.B) {
			x := setup(b, brokertest.Single(b), up.URL, func(c *config.Config) { c.Chat.InlineEvents = events })
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						s, err := x.runner.Stream(b.Context(), ask("sandbox-chat-a", streamed))
						if err != nil {
							b.Error(err)
							return
						}
						defer s.Close()
						if got, err := read(s); err != io.EOF || len(got) != blocks {
							b.Errorf("%d blocks, %v", len(got), err)
						}
					})
				}
				wg.Wait()
			}
			if err := x.runner.Close(b.Context()); err != nil {
				b.Error(err)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/streams/blocks, "ns/block")
			b.ReportMetric(x.counter("genbus_inline_events_dropped_total")/float64(b.N)/streams/blocks, "dropped/block")
			b.ReportMetric(x.counter("genbus_chunk_events_published_total")/float64(b.N)/streams, "messages/stream")
		})
	}
}
