package listener

import (
	"net"
	"sync"
)

// limited reserves a slot before it accepts each connection.
type limited struct {
	net.Listener
	places chan struct{}

	once   sync.Once
	closed chan struct{}
}

// Accept waits for a slot and then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &conn{Conn: c, release: sync.OnceFunc(func() { <-l.places })}, nil
}

// Close stops Accept. Open connections stay open.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn frees its slot when it is closed.
type conn struct {
	net.Conn
	release func()
}

// Close closes the connection and frees its slot.
func (c *conn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite lets net/http close the write side after it responds to a request that it did not read
// completely. Without it, a connection reset could discard the response.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
