package broker

import (
	"net"
	"sync"
	"time"
)

// inProcess connects the client to the server in its process.
type inProcess struct{ embedded *embedded }

// InProcessConn is the client's end of a new connection.
func (p inProcess) InProcessConn() (net.Conn, error) {
	conn, err := p.embedded.server().InProcessConn()
	if err != nil {
		return nil, err
	}
	return newUnhurried(conn), nil
}

// unhurried is a connection whose writes wait for no reader. The server answers direct gets on
// the goroutine that reads the connection, under the lock of the stream, which is held while the
// stream is synced; and the client writes under a lock that all its callers need. So, with a
// pipe between the two, a direct get from a stream whose sync stalls would hold up every caller
// beyond its context, and the pings by which the client leaves a connection without an answer.
// What waits is what is sent until then. It is for the reads that were sent before the stall was
// noticed (circuits).
type unhurried struct {
	net.Conn

	mu    sync.Mutex
	more  sync.Cond
	waits []byte // what is not written yet
	err   error  // of a write, or net.ErrClosed
}

// maxKept bounds the buffer that is kept after a large write.
const maxKept = 1 << 20

// newUnhurried takes a connection over.
func newUnhurried(conn net.Conn) *unhurried {
	c := &unhurried{Conn: conn}
	c.more.L = &c.mu
	go c.send()
	return c
}

// Write keeps what is to be written.
func (c *unhurried) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.waits = append(c.waits, b...)
	c.more.Signal()
	return len(b), nil
}

// SetWriteDeadline does nothing: no write waits.
func (c *unhurried) SetWriteDeadline(time.Time) error { return nil }

// Close ends the connection; what was not written yet is dropped.
func (c *unhurried) Close() error {
	c.fail(net.ErrClosed)
	return c.Conn.Close()
}

func (c *unhurried) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	c.more.Signal()
}

// send writes what waits, until there is an error.
func (c *unhurried) send() {
	var b []byte
	for {
		c.mu.Lock()
		for len(c.waits) == 0 && c.err == nil {
			c.more.Wait()
		}
		b, c.waits = c.waits, b[:0]
		err := c.err
		c.mu.Unlock()
		if err != nil {
			return
		}
		if _, err = c.Conn.Write(b); err != nil {
			c.fail(err)
			return
		}
		if cap(b) > maxKept {
			b = nil
		}
	}
}
