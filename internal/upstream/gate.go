package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// gatedConn is a connection that can refuse to send a request and tracks whether any of the
// request's body was sent. Refusing only the body is not enough, because net/http writes the header
// block before it reads the body. But net/http always reads from the body before the connection
// sends any of it.
type gatedConn struct {
	net.Conn
	request atomic.Pointer[onceBody] // the request whose body has not been sent yet
}

// Write fails if none of the body has been sent and the request was given up or is past its
// deadline. Bytes written before net/http reads the body belong to the header block.
func (c *gatedConn) Write(p []byte) (int, error) {
	b := c.request.Load()
	if b == nil {
		return c.Conn.Write(p)
	}
	begun, err := b.beforeWrite()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if begun {
		c.request.CompareAndSwap(b, nil)
	}
	if begun && n == 0 && err != nil {
		b.afterNoWrite()
	}
	return n, err
}

// SetWriteDeadline seals a request whose body has not been sent. Only crypto/tls sets a write
// deadline, before it writes close_notify, which would otherwise count as part of the body. As a
// result close_notify is refused too, and the connection ends without it.
func (c *gatedConn) SetWriteDeadline(t time.Time) error {
	if b := c.request.Load(); b != nil {
		b.seal()
	}
	return c.Conn.SetWriteDeadline(t)
}

func gated(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gatedConn{Conn: conn}, nil
	}
}

// gateOf returns the gated connection below TLS, or nil for HTTP/2. An HTTP/2 connection carries
// many requests, so it cannot be gated. If a body is refused there, net/http resets the stream
// before the upstream has the whole request.
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
