package upstreamtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// HTTP2Answer answers a request that was received in full. n is its number on the connection, from
// 1.
type HTTP2Answer func(c *HTTP2Conn, n int, stream uint32)

// HTTP2Conn is the server side of a connection. It reads and writes single frames.
type HTTP2Conn struct {
	*http2.Framer
	net.Conn
}

// HTTP2Server is an upstream that writes single HTTP/2 frames. Unlike a net/http server, it can
// refuse streams and send GOAWAY at any point.
type HTTP2Server struct {
	URL string
	// TLS makes a client trust the server.
	TLS *tls.Config
	// Conns and Requests count the connections and requests received.
	Conns, Requests atomic.Int64
}

// NewHTTP2Server starts a server. It calls answer from one goroutine per connection. answer may
// close the connection.
func NewHTTP2Server(t testing.TB, answer HTTP2Answer) *HTTP2Server {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.EnableHTTP2 = true
	certified.StartTLS()
	trust := certified.Client().Transport.(*http.Transport).TLSClientConfig
	own := certified.TLS.Clone()
	certified.Close()
	own.NextProtos = []string{http2.NextProtoTLS}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", own)
	if err != nil {
		t.Fatal(err)
	}
	s := &HTTP2Server{URL: "https://" + listener.Addr().String(), TLS: trust}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, answer)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return s
}

func (s *HTTP2Server) serve(conn net.Conn, answer HTTP2Answer) {
	defer func() { _ = conn.Close() }()
	if _, err := io.CopyN(io.Discard, conn, int64(len(http2.ClientPreface))); err != nil {
		return
	}
	s.Conns.Add(1)
	c := &HTTP2Conn{Framer: http2.NewFramer(conn, conn), Conn: conn}
	if c.WriteSettings() != nil {
		return
	}
	for n := 0; ; {
		frame, err := c.ReadFrame()
		if stream, ok := errors.AsType[http2.StreamError](err); ok {
			_ = c.WriteRSTStream(stream.StreamID, stream.Code)
			continue
		}
		switch f := frame.(type) {
		case nil:
			return
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.WriteSettingsAck()
			}
		case *http2.PingFrame:
			_ = c.WritePing(true, f.Data)
		case *http2.DataFrame:
			if f.StreamEnded() {
				n++
				s.Requests.Add(1)
				answer(c, n, f.StreamID)
			}
		}
	}
}

// Answer sends status 200 and the body, and ends the stream if end is true.
func (c *HTTP2Conn) Answer(stream uint32, body string, end bool) {
	c.Status(stream, "200")
	_ = c.WriteData(stream, end, []byte(body))
}

// Status sends a status, such as an informational one, without ending the stream.
func (c *HTTP2Conn) Status(stream uint32, status string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	_ = encoder.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	_ = encoder.WriteField(hpack.HeaderField{Name: "content-type", Value: "application/json"})
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true})
}
