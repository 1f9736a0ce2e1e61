package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// gatedConn is a connection that can refuse the first write of a request. net/http
// writes the header block before it asks for the body, so that a body alone cannot
// keep a request from leaving.
type gatedConn struct {
	net.Conn
	gate atomic.Pointer[onceBody] // of the request whose first write is awaited
}

// Write refuses the first write of a request whose deadline has passed.
func (c *gatedConn) Write(p []byte) (int, error) {
	if b := c.gate.Swap(nil); b != nil {
		if err := b.mayLeave(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
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
