package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// gatedConn is a connection that can refuse a request, and knows whether any of its
// body left. net/http writes the header block before it asks for the body, so that a
// body alone cannot keep a request from leaving; and it asks for the body before the
// connection has taken any of it.
type gatedConn struct {
	net.Conn
	request atomic.Pointer[onceBody] // whose body is awaited
}

// Write refuses to begin with a request whose deadline has passed or that was given
// up. What is written before the body has been read is none of it: the header block.
func (c *gatedConn) Write(p []byte) (int, error) {
	b := c.request.Load()
	if b == nil {
		return c.Conn.Write(p)
	}
	begun, err := b.leave()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if begun {
		c.request.CompareAndSwap(b, nil)
	}
	if begun && n == 0 && err != nil {
		b.stay()
	}
	return n, err
}

// SetWriteDeadline gives up the request whose body is awaited: TLS sets one before its
// goodbye (close_notify), which would count as the body, and net/http sets none. The
// goodbye is refused then too, and the upstream sees the connection end without it.
func (c *gatedConn) SetWriteDeadline(t time.Time) error {
	if b := c.request.Load(); b != nil {
		b.seal()
	}
	return c.Conn.SetWriteDeadline(t)
}

// gated makes the connections of a dialer gated ones.
func gated(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{Conn: conn}, nil
	}
}

// gateOf finds the gated connection below TLS. There is none for HTTP/2: its one
// connection has many requests, and a request whose body is refused is reset
// before the upstream has it whole.
func gateOf(conn net.Conn) *gatedConn {
	if secured, ok := conn.(*tls.Conn); ok {
		if secured.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		conn = secured.NetConn()
	}
	c, _ := conn.(*gatedConn)
	return c
}
