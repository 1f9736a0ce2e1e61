package upstream_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// TestWhatHTTP2SaysOfACreate checks which HTTP/2 errors prove that a request was not processed.
func TestWhatHTTP2SaysOfACreate(t *testing.T) {
	t.Parallel()
	refused := [2]upstream.Verdict{upstream.RefusedForNow, upstream.RefusedForNow}
	unknown := [2]upstream.Verdict{upstream.Unknown, upstream.Unknown}
	for name, c := range map[string]struct {
		says func(c *upstreamtest.HTTP2Conn, stream uint32)
		want [2]upstream.Verdict // for the first stream of a connection and a later one
	}{
		"REFUSED_STREAM": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}, refused},
		"GOAWAY before the stream": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteGoAway(stream-1, http2.ErrCodeNo, nil)
		}, refused},
		"GOAWAY before the stream, for an error": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteGoAway(stream-1, http2.ErrCodeEnhanceYourCalm, nil)
		}, [2]upstream.Verdict{upstream.Unknown, upstream.RefusedForNow}}, // net/http hides the error code from later streams
		"REFUSED_STREAM after 103": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			c.Status(stream, "103")
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}, unknown},
		"GOAWAY before the stream, after 100": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			c.Status(stream, "100")
			_ = c.WriteGoAway(stream-1, http2.ErrCodeNo, nil)
		}, unknown},
		"GOAWAY behind the stream, then closed": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteGoAway(stream, http2.ErrCodeNo, []byte("REFUSED_STREAM; received from peer]"))
			_ = c.Close()
		}, unknown},
		"GOAWAY behind the stream, for an error": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			_ = c.WriteGoAway(stream, http2.ErrCodeEnhanceYourCalm, []byte("Transport received GOAWAY"))
			_ = c.Close()
		}, unknown},
		"CANCEL":         {resets(http2.ErrCodeCancel), unknown},
		"INTERNAL_ERROR": {resets(http2.ErrCodeInternal), unknown},
		"PROTOCOL_ERROR": {resets(http2.ErrCodeProtocol), unknown},
		"closed":         {func(c *upstreamtest.HTTP2Conn, _ uint32) { _ = c.Close() }, unknown},
		"REFUSED_STREAM within the answer": {func(c *upstreamtest.HTTP2Conn, stream uint32) {
			c.Answer(stream, `{"id":`, false)
			_ = c.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}, unknown},
	} {
		for when, before := range map[string]int{"first": 0, "later": 2} {
			t.Run(name+"/"+when, func(t *testing.T) {
				t.Parallel()
				server := upstreamtest.NewHTTP2Server(t, func(h *upstreamtest.HTTP2Conn, n int, stream uint32) {
					if n <= before {
						h.Answer(stream, `{"id":"t"}`, true)
						return
					}
					c.says(h, stream)
				})
				ep := endpoint(t, server)
				for range before {
					if s := create(t, ep); s.Verdict != upstream.Accepted {
						t.Fatalf("%v: %v", s.Verdict, s.Err)
					}
				}
				s, want := create(t, ep), c.want[min(before, 1)]
				if s.Verdict != want || s.Err.Written != (want == upstream.Unknown) {
					t.Errorf("%v, want %v: %+v", s.Verdict, want, s.Err)
				}
				t.Log(s.Err)
				if n := server.Requests.Load(); n != int64(before)+1 {
					t.Errorf("the upstream got %d requests, want %d", n, before+1)
				}
				if n := server.Conns.Load(); n != 1 {
					t.Errorf("the creates came on %d connections, want 1", n)
				}
			})
		}
	}
}

func resets(code http2.ErrCode) func(*upstreamtest.HTTP2Conn, uint32) {
	return func(c *upstreamtest.HTTP2Conn, stream uint32) { _ = c.WriteRSTStream(stream, code) }
}

func endpoint(t *testing.T, server *upstreamtest.HTTP2Server) *upstream.Endpoint {
	t.Helper()
	transport := upstream.NewTransport(upstream.TransportOptions{TLS: server.TLS})
	t.Cleanup(transport.CloseIdleConnections)
	return &upstream.Endpoint{Name: "u", BaseURL: server.URL, Transport: transport}
}

func create(t *testing.T, ep *upstream.Endpoint) upstream.Submission {
	t.Helper()
	return ep.Submit(t.Context(), upstream.VideoCreate{JobID: "video_1"}, upstream.SubmitCall{
		Path: "/v1/tasks", Body: []byte(`{"prompt":"p"}`), Outcomes: upstream.StatusRows,
		Read: func(_ *http.Response, body []byte) (upstream.Submission, *upstream.Error) {
			var answer struct{ ID string }
			if err := json.Unmarshal(body, &answer); err != nil {
				t.Errorf("answer %q: %v", body, err)
			}
			return upstream.Submission{UpstreamID: answer.ID}, nil
		},
	})
}
