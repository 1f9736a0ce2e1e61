package chat

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

const completion = `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`

var aChat = Request{JobID: "chat_1", Body: []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)}

// TestChatsOnConnectionsThatEnd checks that a chat survives a reused connection that the upstream
// closes before anything is written.
func TestChatsOnConnectionsThatEnd(t *testing.T) {
	t.Parallel()
	const chats = 300
	for name, start := range map[string]func(*httptest.Server){"plain": (*httptest.Server).Start, "TLS": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				answer(http.StatusOK, "application/json", completion)(w, r)
			}))
			var newest atomic.Value
			server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
				if state == http.StateNew {
					newest.Store(&conn)
				}
			}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			start(server)
			t.Cleanup(server.Close)
			c := clientOf(t, server.URL, upstream.TransportOptions{
				TLS: server.Client().Transport.(*http.Transport).TLSClientConfig, IdleTimeout: time.Minute,
			})
			reused := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
				if !info.Reused {
					return
				}
				reused++
				_ = (*newest.Load().(*net.Conn)).Close()
				for info.Conn.SetReadDeadline(time.Time{}) == nil { // until the client has noticed
					runtime.Gosched()
				}
			}})
			failed := 0
			for range chats {
				if _, err := c.Complete(ctx, aChat); err != nil {
					failed++
					t.Log(err)
				}
			}
			if failed > 0 {
				t.Errorf("%d of %d chats failed", failed, chats)
			}
			if n := requests.Load(); n != chats {
				t.Errorf("the upstream got %d requests for %d chats", n, chats)
			}
			if reused < chats/3 {
				t.Errorf("only %d chats were given a reused connection: this test no longer tests anything", reused)
			}
		})
	}
}

func clientOf(t *testing.T, baseURL string, opts upstream.TransportOptions) *Client {
	t.Helper()
	transport := upstream.NewTransport(opts)
	t.Cleanup(transport.CloseIdleConnections)
	return New(&upstream.Endpoint{Name: "test", BaseURL: baseURL, Transport: transport}, Options{})
}

// TestAChatIsSentAgainOnceOverHTTP2 checks that a chat is sent again once if the upstream says that
// it did not process it.
func TestAChatIsSentAgainOnceOverHTTP2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse  func(c *upstreamtest.HTTP2Conn, stream uint32)
		refused int64 // how many requests are refused
		want    string
		sent    int64
	}{
		"REFUSED_STREAM":        {refuseStream, 1, "", 2},
		"GOAWAY":                {goAway, 1, "", 2},
		"REFUSED_STREAM, twice": {refuseStream, 2, "REFUSED_STREAM", 2},
		"GOAWAY, twice":         {goAway, 2, "GOAWAY", 2},
		"CANCEL": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeCancel)
		}, 1, "CANCEL", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := upstreamtest.NewHTTP2Server(t, func(h *upstreamtest.HTTP2Conn, _ int, stream uint32) {
				if requests.Add(1) <= c.refused {
					c.refuse(h, stream)
					return
				}
				h.Answer(stream, completion, true)
			})
			_, err := clientOf(t, server.URL, upstream.TransportOptions{TLS: server.TLS}).Complete(t.Context(), aChat)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := requests.Load(); n != c.sent {
				t.Errorf("the upstream got %d requests, want %d", n, c.sent)
			}
		})
	}
}

func refuseStream(c *upstreamtest.HTTP2Conn, stream uint32) {
	_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
}

func goAway(c *upstreamtest.HTTP2Conn, stream uint32) {
	_ = c.WriteGoAway(stream-1, http2.ErrCodeNo, nil)
}
