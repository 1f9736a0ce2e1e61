package inline_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

// BenchmarkStream reads 16 streams of 500 blocks at full speed, with and without events.
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
						s, err := x.runner.Stream(b.Context(), ask("sandbox-chat-a", streamed), nil)
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

// BenchmarkComplete serves whole replies of 1 KiB to 64 callers until the last event is stored,
// with and without events.
func BenchmarkComplete(b *testing.B) {
	answer := []byte(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 200) + `"},"finish_reason":"stop"}],"usage":{"total_tokens":200}}`)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	}))
	defer up.Close()
	for _, events := range []string{config.InlineEventsOff, config.InlineEventsOn} {
		b.Run("events="+events, func(b *testing.B) {
			x := setup(b, brokertest.Single(b), up.URL, func(c *config.Config) {
				c.Chat.InlineEvents = events
				for i := range c.Routes {
					c.Routes[i].MaxInFlight = 64
				}
			})
			b.ReportAllocs()
			b.SetParallelism((63 + runtime.GOMAXPROCS(0)) / runtime.GOMAXPROCS(0))
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if _, err := x.runner.Complete(b.Context(), ask("sandbox-chat-a", "")); err != nil {
						b.Error(err)
					}
				}
			})
			if err := x.runner.Close(b.Context()); err != nil {
				b.Error(err)
			}
			b.ReportMetric(x.counter("genbus_inline_events_dropped_total")/float64(b.N), "dropped/chat")
		})
	}
}
