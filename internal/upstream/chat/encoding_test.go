package chat

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func encoded(status int, contentType, encoding, body string) http.HandlerFunc {
	plain := answer(status, contentType, body)
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", encoding)
		plain(w, r)
	}
}

// TestGzip checks gzip for whole replies, streams, and either in place of the other.
func TestGzip(t *testing.T) {
	t.Parallel()
	reply := `{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`
	stream := data(textChunk, finishChunk, "[DONE]")
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		c := serve(t, Options{}, encoded(200, "application/json", "gzip", upstreamtest.Gzip(t, reply)))
		got, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
		if err != nil || string(got.Raw) != reply || got.Assembled {
			t.Errorf("reply %+v, %v", got, err)
		}
	})
	t.Run("whole, as a stream", func(t *testing.T) {
		t.Parallel()
		c := serve(t, Options{}, encoded(200, "text/event-stream", "gzip", upstreamtest.Gzip(t, stream)))
		got, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
		if err != nil || !got.Assembled || !strings.Contains(string(got.Raw), `"content":"a"`) {
			t.Errorf("reply %+v, %v", got, err)
		}
	})
	t.Run("streamed", func(t *testing.T) {
		t.Parallel()
		blocks, _, err := streamAll(t, serve(t, Options{}, encoded(200, "text/event-stream", "gzip", upstreamtest.Gzip(t, stream))))
		if diff := cmp.Diff([]string{textChunk, finishChunk}, blocks); diff != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%v, (-want +got)\n%s", err, diff)
		}
	})
	t.Run("streamed, as a whole", func(t *testing.T) {
		t.Parallel()
		blocks, _, err := streamAll(t, serve(t, Options{}, encoded(200, "application/json", "gzip", upstreamtest.Gzip(t, reply))))
		if len(blocks) == 0 || !errors.Is(err, io.EOF) {
			t.Errorf("blocks %q, %v", blocks, err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		c := serve(t, Options{}, encoded(400, "application/json", "gzip", upstreamtest.Gzip(t, `{"error":{"message":"no such voice","code":"invalid_value"}}`)))
		_, err := c.Complete(t.Context(), Request{Body: []byte(testBody)})
		if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != "invalid_value" || e.Message != "no such voice" || !e.Reported || !e.Final {
			t.Errorf("error %+v", err)
		}
	})
}

// TestGzipBlocksComeAsTheyAreSent checks that a gzip stream yields each block before the upstream
// sends the next.
func TestGzipBlocksComeAsTheyAreSent(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	c := serve(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		for _, block := range []string{textChunk, textChunk, textChunk, finishChunk, "[DONE]"} {
			_, _ = io.WriteString(z, data(block))
			_ = z.Flush()
			_ = http.NewResponseController(w).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
		_ = z.Close()
	})
	s, err := c.Stream(t.Context(), Request{Body: []byte(testBody)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i, want := range []string{textChunk, textChunk, textChunk, finishChunk} {
		b, err := s.Next()
		if err != nil || string(b) != want {
			t.Fatalf("block %d: %q, %v", i, b, err)
		}
		next <- struct{}{}
	}
	if _, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("the end: %v", err)
	}
	next <- struct{}{}
}

// TestEncodingsThatAreNotRead checks that an error names an unsupported encoding, whatever the
// Content-Type.
func TestEncodingsThatAreNotRead(t *testing.T) {
	t.Parallel()
	whole := upstreamtest.Gzip(t, `{"choices":[{"message":{"content":"`+strings.Repeat("a", 10_000)+`"}}]}`)
	events := upstreamtest.Gzip(t, data(textChunk))
	for name, tc := range map[string]struct {
		contentType, encoding, body string
		code, says                  string
	}{
		"br":                 {"application/json", "br", "\x0b\x04\x80{}\x03", CodeUnreadable, `(Content-Type "application/json", Content-Encoding "br"): 6 bytes of binary data`},
		"br of a stream":     {"text/event-stream", "br", "\x0b\x04\x80data\x03", CodeUnreadable, `Content-Encoding "br"`},
		"undeclared gzip":    {"application/json", "", whole, CodeUnreadable, "undeclared gzip data"},
		"damaged":            {"application/json", "gzip", whole[:10] + "\xff\xff\xff\xff", CodeUnreadable, "the answer's gzip data is damaged"},
		"damaged at the end": {"application/json", "gzip", whole[:len(whole)-8] + "12345678", CodeUnreadable, "the answer's gzip data is damaged: gzip: invalid checksum"},
		"a stream cut off":   {"text/event-stream", "gzip", events[:len(events)-8], CodeStreamTruncated, "its gzip data is cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, encoded(200, tc.contentType, tc.encoding, tc.body))
			_, _, streamed := streamAll(t, c)
			_, whole := c.Complete(t.Context(), Request{Body: []byte(testBody)})
			for call, err := range map[string]error{"Stream": streamed, "Complete": whole} {
				e, ok := errors.AsType[*upstream.Error](err)
				if !ok || e.Code != tc.code || !strings.Contains(e.Message, tc.says) || e.Reported || e.Final || e.Scope != upstream.ScopeUpstream {
					t.Errorf("%s: %+v", call, err)
				}
			}
		})
	}
}

// TestGzipBombs checks that the size limits apply to decoded answers.
func TestGzipBombs(t *testing.T) {
	t.Parallel()
	opts := Options{MaxReply: 64 << 10, MaxEvent: 64 << 10}
	long := strings.Repeat(" ", 16<<20)
	for name, body := range map[string]string{"whole": `{"a":` + long, "stream": "data: " + long, "comment": ":" + long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, err := streamAll(t, serve(t, opts, encoded(200, "", "gzip", upstreamtest.Gzip(t, body))))
			if e, ok := errors.AsType[*upstream.Error](err); !ok || e.Code != CodeTooLarge {
				t.Errorf("error %+v", err)
			}
		})
	}
}
